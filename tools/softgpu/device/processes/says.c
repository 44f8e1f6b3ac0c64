/* SPDX-License-Identifier: MIT */
#include "says.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vgpu/descriptor.h"

/* Logs one line, which may begin with a priority and softgpu's name. Its priority is at most that
 * of a warning, whatever the process has written. */
static void log_line(int vf, enum says who, char *line)
{
	static const char *const names[] = {[SAYS_PROCESS] = "process", [SAYS_WORKER] = "worker"};
	static const char name[] = "softgpu: ";
	char priority = '5', *c;

	if (line[0] == '<' && line[1] >= '0' && line[1] <= '7' && line[2] == '>') {
		priority = line[1] > '4' ? line[1] : '4';
		line += 3;
	}
	if (strncmp(line, name, sizeof(name) - 1) == 0)
		line += sizeof(name) - 1;
	for (c = line; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	if (*line)
		fprintf(stderr, "<%c>softgpu: VF %d's %s: %s\n", priority, vf, names[who], line);
}

/* Lines of one piece; what comes after them stands in the last one. */
#define MOST_LINES 4u

int says_pass_on(int fd, int vf, enum says who)
{
	char text[1025], *line, *end;
	uint32_t lines = 0;
	ssize_t n = read(fd, text, sizeof(text) - 1), i;

	if (n <= 0)
		return n < 0 ? -errno : 0;
	for (i = 0; i < n; i++)
		if (!text[i])
			text[i] = '?';
	text[n] = 0;
	for (line = text; line; line = end) {
		end = ++lines < MOST_LINES ? strchr(line, '\n') : NULL;
		if (end)
			*end++ = 0;
		log_line(vf, who, line);
	}
	return (int)n;
}

void says_pass_on_last(int *fd, int vf, enum says who)
{
	uint32_t pieces = 64;

	while (*fd >= 0 && pieces-- > 0 && says_pass_on(*fd, vf, who) > 0)
		;
	vgpu_close(fd);
}
