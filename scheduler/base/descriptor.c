/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vgpu/descriptor.h"

void vgpu_close(int *fd)
{
	int error = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = error;
}

int vgpu_take(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

int vgpu_eventfd(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

void vgpu_eventfd_signal(int fd)
{
	const uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return; /* full */
}

bool vgpu_eventfd_drain(int fd)
{
	uint64_t count;

	return read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count);
}
