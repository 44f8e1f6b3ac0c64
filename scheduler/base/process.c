/* SPDX-License-Identifier: MIT */
#include "vgpu/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vgpu/descriptor.h"

int vgpu_process_read(uint32_t pid, struct vgpu_process *out)
{
	char path[32], text[1024], state, *at;
	VGPU_AUTO_CLOSE int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -ESRCH;
	text[n] = '\0';
	/* The name, in brackets, may contain any character. State, parent, and the 20th and
	 * 22nd fields follow. */
	at = strrchr(text, ')');
	if (!at ||
	    sscanf(at + 1,
		   " %c %" SCNu32 " %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
		   "%" SCNu32 " %*d %" SCNu64,
		   &state, &out->parent, &out->threads, &out->started) != 4)
		return -ESRCH;
	out->has_ended = state == 'Z' || state == 'X';
	return 0;
}
