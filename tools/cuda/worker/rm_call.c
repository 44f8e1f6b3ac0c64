/* SPDX-License-Identifier: MIT */
/* The system call that rm.c makes. Tests put a resource manager of their own in its place. */
#include <sys/syscall.h>
#include <unistd.h>

#include "rm.h"

int rm_call(int fd, unsigned long request, void *argument)
{
	return (int)syscall(SYS_ioctl, fd, request, argument);
}
