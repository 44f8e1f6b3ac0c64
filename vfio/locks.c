/* SPDX-License-Identifier: MIT */
/*
 * Locks and marks of a function that several processes have: locks of bytes of one file, which
 * belong to an open file description (F_OFD_SETLK). The kernel releases them when the last
 * descriptor of that description is closed, also if that is in another process, or in a message
 * that no process receives any more.
 *
 * A mark is a lock for reading, by a description of its own that can only read: so several may hold
 * the same mark, and the receiver of the descriptor gets no right to write. The kernel's fdinfo
 * shows which mark a descriptor holds.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vfio/device.h"
#include "vgpu/descriptor.h"

/* Offset of the marks' bytes, behind the locks. */
#define MARKS_AT (INT64_C(1) << 32)

static int lock_fd(struct vfio_device *d)
{
	return d->ops->lock_fd ? d->ops->lock_fd(d) : -1;
}

static int set(int fd, short type, off_t at)
{
	struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

	if (fcntl(fd, F_OFD_SETLK, &range) == 0)
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

int vfio_lock(struct vfio_device *d, uint32_t n, bool on)
{
	int fd = lock_fd(d);

	return fd < 0 ? -ENOTSUP : set(fd, on ? F_WRLCK : F_UNLCK, n);
}

int vfio_mark(struct vfio_device *d, uint32_t n)
{
	VGPU_AUTO_CLOSE int fd = -1;
	char path[32];
	int r;

	if (lock_fd(d) < 0)
		return -ENOTSUP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", lock_fd(d));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = set(fd, F_RDLCK, MARKS_AT + n);
	return r < 0 ? r : vgpu_take(&fd);
}

static bool are_of_one_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Returns the number of the byte that FD's description has locked for reading; -1 if it has locked
 * none, or more than one. */
static int64_t locked_byte(int fd)
{
	uint64_t first, last;
	int64_t at = -1;
	char text[256];
	FILE *info;

	snprintf(text, sizeof(text), "/proc/self/fdinfo/%d", fd);
	info = fopen(text, "re");
	while (info && fgets(text, sizeof(text), info)) {
		if (sscanf(text, "lock: %*d: OFDLCK %*s READ %*d %*s %" SCNu64 " %" SCNu64, &first,
			   &last) != 2)
			continue;
		if (at >= 0 || first != last || first > INT64_MAX) {
			at = -1;
			break;
		}
		at = (int64_t)first;
	}
	if (info)
		fclose(info);
	return at;
}

int vfio_mark_of(struct vfio_device *d, int fd, uint32_t *n)
{
	int64_t at;

	if (lock_fd(d) < 0)
		return -ENOTSUP;
	if (!are_of_one_file(fd, lock_fd(d)))
		return -EINVAL;
	at = locked_byte(fd) - MARKS_AT;
	if (at < 0 || at > UINT32_MAX)
		return -EINVAL;
	*n = (uint32_t)at;
	return 0;
}

bool vfio_is_marked(struct vfio_device *d, uint32_t n)
{
	struct flock range = {.l_type = F_WRLCK,
			      .l_whence = SEEK_SET,
			      .l_start = MARKS_AT + n,
			      .l_len = 1};

	return fcntl(lock_fd(d), F_OFD_GETLK, &range) < 0 || range.l_type != F_UNLCK;
}
