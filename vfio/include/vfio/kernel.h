/* SPDX-License-Identifier: MIT */
/*
 * The calls by which this library reaches the kernel, in one table, so that tests can replace them
 * by a simulated machine. All return a negative errno on failure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct vfio_kernel {
	int (*open)(const char *path, int flags);
	ssize_t (*read)(int fd, void *data, size_t size, uint64_t offset);
	ssize_t (*write)(int fd, const void *data, size_t size, uint64_t offset);
	int (*ioctl)(int fd, unsigned long request, void *arg);
	/* At the address WANTED if that is free. Returns NULL on failure. */
	void *(*map)(void *wanted, int fd, size_t size, uint64_t offset);
	ssize_t (*readlink)(const char *path, char *out, size_t size);
	/* The numbers of the character device to which PATH leads, from the kernel's own data: no
	 * file system is asked. Returns false if it is none. */
	bool (*device)(const char *path, uint32_t *major, uint32_t *minor);
	/* Calls EACH for every name in a directory until EACH returns non-zero, and returns that
	 * value. */
	int (*list)(const char *path, int (*each)(void *data, const char *name), void *data);
	/* Opens a counter (perf_event_open): event CONFIG of the unit with number TYPE, read on
	 * CPU. Returns a descriptor. */
	int (*perf_open)(uint32_t type, uint64_t config, int cpu);
	/* Reads a counter. Returns 0; -ENODEV: the unit that counts was removed. */
	int (*perf_read)(int fd, uint64_t *value);
};

/* The table in use. Only tests set it, before any other call. */
extern const struct vfio_kernel *vfio_kernel;
extern const struct vfio_kernel vfio_real_kernel;

/* Reads the text of a small file without its newline. Returns its length, or -errno. FORMAT makes
 * the path, also in the functions below. */
int kernel_read_text(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Reads a number: decimal, or hexadecimal after "0x". Returns 0, or -errno; -EINVAL: the file's
 * text is not a number. */
int kernel_read_number(int64_t *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes TEXT to a file of sysfs in a separate process, because most such writes wait for a lock of
 * the device that may be held for long. Returns 0 or -errno; -ETIMEDOUT after DEADLINE_MS
 * milliseconds: the process then continues alone, and need not be waited for. */
int kernel_write_text(int deadline_ms, const char *text, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Writes TEXT to a file of sysfs in the calling thread, and waits as long as Linux needs. Returns 0
 * or -errno. */
int kernel_write_here(const char *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Calls EACH for every line of a file, without its newline. Lines are shorter than 4 KiB. Returns 0
 * or -errno. */
int kernel_each_line(const char *path, void (*each)(void *data, const char *line), void *data);
/* Reads the last component of a link's target. Returns 0 or -errno. */
int kernel_read_link(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Returns whether PATH is a directory that is not empty. */
bool kernel_has_entries(const char *path);
/* Returns whether the directory that FORMAT makes has an entry NAME. */
bool kernel_has(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
