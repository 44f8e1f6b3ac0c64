/* SPDX-License-Identifier: MIT */
/* The system call that rm.c makes, in its own file, so that tests can replace it by a mock resource
 * manager. */
#include <sys/syscall.h>
#include <unistd.h>

#include "rm.h"

int rm_call(int fd, unsigned long request, void *argument)
{
	return (int)syscall(SYS_ioctl, fd, request, argument);
}
