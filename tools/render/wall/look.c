/* SPDX-License-Identifier: MIT */
/*
 * Calls whose argument lies in the caller's memory. The caller's other threads could change it
 * after a check, so the keeper never lets such a call pass: it copies the argument, checks the
 * copy, makes the call with the copy on the caller's own descriptor, and writes the result back.
 */
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "vgpu/descriptor.h"
#include "wall.h"

/* The major number of all DRM devices (Linux, Documentation/admin-guide/devices.txt). */
#ifndef DRM_MAJOR
#define DRM_MAJOR 226u
#endif

/* Returns a duplicate of the process's descriptor FD, which must be of a GPU and which the caller
 * closes; or -errno. */
static int borrow(pid_t process, int fd)
{
	VGPU_AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, process, 0);
	VGPU_AUTO_CLOSE int duplicate =
		pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	struct stat s;

	if (duplicate < 0)
		return -EPERM;
	if (fstat(duplicate, &s) < 0 || !S_ISCHR(s.st_mode) || major(s.st_rdev) != DRM_MAJOR)
		return -ENOTTY;
	return vgpu_take(&duplicate);
}

int wall_look(int listener, const struct seccomp_notif *call, pid_t process,
	      const struct vgpu_wall_row *row, int64_t *result)
{
	VGPU_AUTO_CLOSE int fd = borrow(process, (int)call->data.args[0]);
	unsigned char copy[VGPU_WALL_COPY];
	struct iovec here = {copy, _IOC_SIZE(row->command)},
		     there = {(void *)(uintptr_t)call->data.args[2], here.iov_len};
	int r;

	if (fd < 0)
		return fd;
	if (process_vm_readv(process, &here, 1, &there, 1, 0) != (ssize_t)here.iov_len)
		return errno == EPERM ? -EPERM : -EFAULT;
	/* If the call still waits, its caller still lives, so descriptor and copy are not from
	 * another process that got the same number. */
	if (!wall_waits(listener, call))
		return -ESRCH;
	if (!vgpu_wall_allows(row, copy))
		return -EACCES;
	r = ioctl(fd, row->command, copy);
	if (r < 0)
		return -errno;
	*result = r;
	return process_vm_writev(process, &here, 1, &there, 1, 0) == (ssize_t)here.iov_len
		       ? 0
		       : -EFAULT;
}
