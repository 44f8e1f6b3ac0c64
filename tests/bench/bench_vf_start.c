/* SPDX-License-Identifier: MIT */
/* How long a VF process takes from its start until it is ready, and beside it how long this machine
 * takes to start a program that does nothing. Prints JSON. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "sample.h"
#include "vf_process.h"
#include "vgpu/clock.h"

#define TIMES 50

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
	sample_print("vf_process_ready", process, TIMES, ",");
	sample_print("program_that_does_nothing", nothing, TIMES, "}\n");
	return 0;
}
