/* SPDX-License-Identifier: MIT */
#include "apart.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int run_apart(int (*work)(void *arg), void *arg)
{
	const struct rlimit none = {0, 0};
	int status = 0, r;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		r = work(arg);
		exit(r); /* checks that the output was written */
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		fprintf(stderr, "vgpu-sim: cannot start a process: %s\n", strerror(errno));
		return 2;
	}
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	fprintf(stderr,
		"vgpu-sim: the replay was ended by signal %d (%s): the recording was forged, or "
		"the "
		"core is defective\n",
		WTERMSIG(status), strsignal(WTERMSIG(status)));
	return 2;
}
