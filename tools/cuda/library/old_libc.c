/* SPDX-License-Identifier: MIT */
/*
 * The library is loaded in containers, whose libc may be older than that of the build: glibc 2.28
 * suffices. If the build's libc has a newer version of a function, the linker redirects the
 * library's calls to this file (--wrap, with the names in meson.build), which calls the function's
 * first version, which each later glibc still has, or the kernel.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Passes calls of NAME to its VERSION unchanged. */
#define FORWARD(name, version)                                                                     \
	__asm__(".symver first_" #name ", " #name "@GLIBC_" version "\n"                           \
		".text\n"                                                                          \
		".globl __wrap_" #name "\n"                                                        \
		".hidden __wrap_" #name "\n"                                                       \
		".type __wrap_" #name ", @function\n"                                              \
		"__wrap_" #name ": jmp first_" #name "@PLT\n")

FORWARD(pthread_create, "2.2.5");
FORWARD(pthread_getspecific, "2.2.5");
FORWARD(pthread_join, "2.2.5");
FORWARD(pthread_key_create, "2.2.5");
FORWARD(pthread_mutex_trylock, "2.2.5");
FORWARD(pthread_mutexattr_destroy, "2.2.5");
FORWARD(pthread_mutexattr_init, "2.2.5");
FORWARD(pthread_mutexattr_setprotocol, "2.4");
FORWARD(pthread_once, "2.2.5");
FORWARD(pthread_setspecific, "2.2.5");
FORWARD(pthread_sigmask, "2.2.5");
FORWARD(sem_init, "2.2.5");
FORWARD(sem_post, "2.2.5");
FORWARD(sem_wait, "2.2.5");

int __wrap_stat64(const char *path, struct stat *out);
int __wrap_lstat64(const char *path, struct stat *out);
int __wrap_fstat64(int fd, struct stat *out);
int __wrap_close_range(unsigned first, unsigned last, int flags);
pid_t __wrap__Fork(void);

int __wrap_stat64(const char *path, struct stat *out)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, 0);
}

int __wrap_lstat64(const char *path, struct stat *out)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

int __wrap_fstat64(int fd, struct stat *out)
{
	return (int)syscall(SYS_fstat, fd, out);
}

int __wrap_close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

/* The child may call only functions that are allowed in signal handlers. */
pid_t __wrap__Fork(void)
{
	return (pid_t)syscall(SYS_fork);
}
