/* SPDX-License-Identifier: MIT */
/*
 * The kernel, as this library reaches it: one table of calls, which a test replaces by a machine of
 * its own making. All return a negative errno where they fail.
 */
#ifndef VFIO_KERNEL_H
#define VFIO_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct vfio_kernel {
	int (*open)(const char *path, int flags);
	ssize_t (*read)(int fd, void *data, size_t size, uint64_t offset);
	ssize_t (*write)(int fd, const void *data, size_t size, uint64_t offset);
	int (*ioctl)(int fd, unsigned long request, void *arg);
	void *(*map)(int fd, size_t size, uint64_t offset); /* NULL: failed */
	ssize_t (*readlink)(const char *path, char *out, size_t size);
	/* Calls EACH for every name in a directory, until it returns non-zero; returns that. */
	int (*list)(const char *path, int (*each)(void *data, const char *name), void *data);
};

/* The one in use. Set by tests, before anything else runs. */
extern const struct vfio_kernel *vfio_kernel;
extern const struct vfio_kernel vfio_real_kernel;

/* The text of a small file, without the newline; its length, or -errno. The path is made by
 * FORMAT, here and below. */
int kernel_read_text(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A number, decimal, or hexadecimal after "0x"; -EINVAL if there is anything else. */
int kernel_read_number(int64_t *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes TEXT to a file of sysfs, in a process of its own: most such writes wait for a lock of the
 * device, which may be held for long. 0 or -errno; -ETIMEDOUT after DEADLINE_MS, when the process
 * goes on alone, and is nobody's to wait for. */
int kernel_write_text(int deadline_ms, const char *text, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Calls EACH for every line of a file, without its newline. Lines are shorter than 4 KiB.
 * 0 or -errno. */
int kernel_each_line(const char *path, void (*each)(void *data, const char *line), void *data);
/* The last part of what a link points to. 0 or -errno. */
int kernel_read_link(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Whether PATH is a directory with anything in it. */
bool kernel_has_entries(const char *path);

#endif
