/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stuck.h"

#include "vgpu/descriptor.h"

/* Reads FILE of the process's first thread: what fits into TEXT; "" if it cannot be read. */
static void read_file(pid_t pid, const char *file, char *text, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	text[n > 0 ? n : 0] = 0;
	vgpu_close(&fd);
}

void stuck_log(int vf, pid_t pid)
{
	char stat[1024], in[64], waited[64], *name_end, *field, *rest = NULL;
	const char *state = "?", *cpu = "?", *priority = "?";
	int n = 3; /* the first after the name, which may hold any character */

	read_file(pid, "stat", stat, sizeof(stat));
	read_file(pid, "wchan", in, sizeof(in));
	read_file(pid, "schedstat", waited, sizeof(waited));
	waited[strcspn(waited, "\n")] = 0;
	name_end = strrchr(stat, ')');
	field = strtok_r(name_end ? name_end + 1 : stat, " ", &rest);
	for (; field; n++, field = strtok_r(NULL, " ", &rest)) /* proc_pid_stat(5) */
		if (n == 3)
			state = field;
		else if (n == 39)
			cpu = field;
		else if (n == 40)
			priority = field;
	fprintf(stderr,
		"<4>softgpu: VF %d is reset before it has stopped: its process is in state %s, in "
		"%s, on CPU %s with real-time priority %s; it has run and waited for a CPU: %s\n",
		vf, state, in[0] ? in : "?", cpu, priority, waited[0] ? waited : "?");
}
