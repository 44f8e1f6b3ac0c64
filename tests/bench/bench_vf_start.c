/* SPDX-License-Identifier: MIT */
/* How long a VF process takes from its start until it is ready, and beside it how long this machine
 * takes to start a program that does nothing. Prints JSON. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "vf_process.h"
#include "vgpu/clock.h"

#define TIMES 50

static int compare(const void *a, const void *b)
{
	vgpu_nsec x = *(const vgpu_nsec *)a, y = *(const vgpu_nsec *)b;

	return x < y ? -1 : x > y;
}

static void print(const char *name, vgpu_nsec *ns, const char *end)
{
	qsort(ns, TIMES, sizeof(*ns), compare);
	printf("\"%s\":{\"n\":%d,\"min_us\":%.0f,\"p50_us\":%.0f,\"p99_us\":%.0f,\"max_us\":%.0f}%"
	       "s",
	       name, TIMES, (double)ns[0] / 1e3, (double)ns[TIMES / 2] / 1e3,
	       (double)ns[TIMES * 99 / 100] / 1e3, (double)ns[TIMES - 1] / 1e3, end);
}

static vgpu_nsec start_nothing(void)
{
	char *argv[] = {(char *)"true", NULL}, *none[] = {NULL};
	vgpu_nsec began = vgpu_now();
	pid_t pid;

	if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, none) != 0 ||
	    waitpid(pid, NULL, 0) != pid)
		exit(1);
	return vgpu_now() - began;
}

static vgpu_nsec start_vf(void)
{
	struct vgpu_error err = {""};
	vgpu_nsec began = vgpu_now(), took;
	struct vf_process p;

	if (vf_process_start(&p, false, &err) < 0 || !vf_process_ready(&p)) {
		fprintf(stderr, "a VF process does not start: %s\n", err.text);
		exit(1);
	}
	took = vgpu_now() - began;
	vf_process_end(&p);
	return took;
}

int main(void)
{
	vgpu_nsec process[TIMES], nothing[TIMES];
	int i;

	for (i = 0; i < TIMES; i++) {
		process[i] = start_vf();
		nothing[i] = start_nothing();
	}
	printf("{");
	print("vf_process_ready", process, ",");
	print("program_that_does_nothing", nothing, "}\n");
	return 0;
}
