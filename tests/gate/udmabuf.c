/* SPDX-License-Identifier: MIT */
/*
 * Loaded into Venus' render processes (LD_PRELOAD) on a kernel without CONFIG_UDMABUF: memory files
 * stand for the DMA buffers of them that /dev/udmabuf would make. Both are mapped alike. lavapipe
 * has no other way to share its memory with a process that is no Vulkan program.
 */
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
int ioctl(int fd, unsigned long request, ...);

static int opened(const char *path, int flags, int mode)
{
	if (strcmp(path, "/dev/udmabuf") == 0)
		path = "/dev/null";
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define OPEN(name)                                                                                 \
	int name(const char *path, int flags, ...)                                                 \
	{                                                                                          \
		va_list rest;                                                                      \
		int mode;                                                                          \
                                                                                                   \
		va_start(rest, flags);                                                             \
		mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;                      \
		va_end(rest);                                                                      \
		return opened(path, flags, mode);                                                  \
	}
OPEN(open)
OPEN(open64)

int ioctl(int fd, unsigned long request, ...)
{
	struct udmabuf_create *create;
	va_list rest;
	void *argument;

	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	if (request == DMA_BUF_IOCTL_SYNC)
		return 0;
	if (request != UDMABUF_CREATE)
		return (int)syscall(SYS_ioctl, fd, request, argument);
	create = argument;
	return create->offset ? -1 : fcntl((int)create->memfd, F_DUPFD_CLOEXEC, 0);
}
