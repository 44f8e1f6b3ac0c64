/* SPDX-License-Identifier: MIT */
/* Programs that share a VF, each of them a process, and what the test and they have in common. */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "draw.h"
#include "suite.h"
#include "vgpu/clock.h"

#define DEADLINE (120 * VGPU_SEC)

typedef int program(uint32_t number);

/* Starts a program. It returns 0, or what it is that is wrong. */
static pid_t process_start(program *run, uint32_t number)
{
	pid_t parent = getpid(), pid;
	int n;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		for (n = getpid() % 97; n > 0; n--)
			draw(1); /* each program draws others */
		exit(run(number));
	}
	CU_ASSERT_FATAL(pid > 0);
	return pid;
}

/* What a program returns; or 128 and the signal that has ended it. */
static int end_of(pid_t pid)
{
	int status = 0;

	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void kill_it(pid_t pid)
{
	kill(pid, SIGKILL);
	CU_ASSERT_EQUAL(end_of(pid), 128 + SIGKILL);
}

/* Waits until *WORD is at least VALUE. */
static bool reaches(_Atomic uint32_t *word, uint32_t value)
{
	const struct timespec pause = {0, 200000};
	vgpu_nsec until = vgpu_now() + DEADLINE;

	while (atomic_load(word) < value && vgpu_now() < until)
		nanosleep(&pause, NULL);
	return atomic_load(word) >= value;
}

/* Runs the tests, which have *TALK, of SIZE bytes, in common with their programs. */
static int processes_main(const char *name, void *talk, size_t size, int argc, char **argv)
{
	void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		return 1;
	memcpy(talk, &shared, sizeof(shared));
	setenv("VGPU_CUDA_VF", "shared:played", 1);
	setenv("LD_LIBRARY_PATH", DRIVER, 1); /* for the worker */
	return suite_main(name, NULL, argc, argv);
}
