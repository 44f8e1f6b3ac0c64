/* SPDX-License-Identifier: MIT */
/* Loaded before the C library: the kernel does not know SO_PASSRIGHTS, as before Linux 6.16. */
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

#define PASSRIGHTS 83

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	int (*next)(int, int, int, const void *, socklen_t) =
		(int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");

	if (level == SOL_SOCKET && name == PASSRIGHTS) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return next(fd, level, name, value, size);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	int (*next)(int, int, int, void *, socklen_t *) =
		(int (*)(int, int, int, void *, socklen_t *))dlsym(RTLD_NEXT, "getsockopt");

	if (level == SOL_SOCKET && name == PASSRIGHTS) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return next(fd, level, name, value, size);
}
