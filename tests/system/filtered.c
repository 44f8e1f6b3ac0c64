/* SPDX-License-Identifier: MIT */
/* filtered LIST COMMAND...: runs a command that is killed if it makes a system call that is not in
 * the file LIST, one name on each line, as systemd does by SystemCallFilter=. */
#include <seccomp.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	FILE *list = argc < 3 ? NULL : fopen(argv[1], "re");
	char name[128];
	int call;

	if (!filter || !list) {
		perror("filtered");
		return 2;
	}
	while (fscanf(list, "%127s", name) == 1) {
		call = seccomp_syscall_resolve_name(name);
		/* A name of another kind of machine, or of a newer kernel, is left out, as by
		 * systemd. */
		if (call >= 0 && seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0) < 0) {
			fprintf(stderr, "filtered: %s cannot be allowed\n", name);
			return 2;
		}
	}
	if (seccomp_load(filter) < 0) {
		perror("filtered: the filter");
		return 2;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 2;
}
