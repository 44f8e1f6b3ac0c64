/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vfio/kernel.h"
#include "vgpu/clock.h"
#include "vgpu/number.h"

static int real_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static ssize_t real_read(int fd, void *data, size_t size, uint64_t offset)
{
	ssize_t n = pread(fd, data, size, (off_t)offset);

	return n < 0 ? -errno : n;
}

static ssize_t real_write(int fd, const void *data, size_t size, uint64_t offset)
{
	ssize_t n = pwrite(fd, data, size, (off_t)offset);

	return n < 0 ? -errno : n;
}

static int real_ioctl(int fd, unsigned long request, void *arg)
{
	int r = ioctl(fd, request, arg);

	return r < 0 ? -errno : r;
}

static void *real_map(void *wanted, int fd, size_t size, uint64_t offset)
{
	void *at = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	return at == MAP_FAILED ? NULL : at;
}

static ssize_t real_readlink(const char *path, char *out, size_t size)
{
	ssize_t n = readlink(path, out, size);

	return n < 0 ? -errno : n;
}

static bool real_device(const char *path, uint32_t *major, uint32_t *minor)
{
	struct statx s;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &s) < 0 ||
	    !S_ISCHR(s.stx_mode))
		return false;
	*major = s.stx_rdev_major;
	*minor = s.stx_rdev_minor;
	return true;
}

static int real_list(const char *path, int (*each)(void *data, const char *name), void *data)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			r = each(data, e->d_name);
	closedir(dir);
	return r;
}

static int real_perf_open(uint32_t type, uint64_t config, int cpu)
{
	struct perf_event_attr attr = {.type = type, .size = sizeof(attr), .config = config};
	long fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* Counters have no offset, so pread() fails. A counter whose unit was removed reads as an empty
 * file. */
static int real_perf_read(int fd, uint64_t *value)
{
	ssize_t n = read(fd, value, sizeof(*value));

	return n < 0 ? -errno : n == (ssize_t)sizeof(*value) ? 0 : -ENODEV;
}

const struct vfio_kernel vfio_real_kernel = {
	.open = real_open,
	.read = real_read,
	.write = real_write,
	.ioctl = real_ioctl,
	.map = real_map,
	.readlink = real_readlink,
	.device = real_device,
	.list = real_list,
	.perf_open = real_perf_open,
	.perf_read = real_perf_read,
};

const struct vfio_kernel *vfio_kernel = &vfio_real_kernel;

#define PATH_SIZE 256

#define MAKE_PATH(path, format)                                                                    \
	do {                                                                                       \
		va_list args;                                                                      \
		va_start(args, format);                                                            \
		vsnprintf(path, sizeof(path), format, args);                                       \
		va_end(args);                                                                      \
	} while (0)

static int read_text(char *out, size_t size, const char *path)
{
	int fd = vfio_kernel->open(path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = vfio_kernel->read(fd, out, size - 1, 0);
	close(fd);
	if (n < 0)
		return (int)n;
	while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == ' '))
		n--;
	out[n] = '\0';
	return (int)n;
}

int kernel_read_text(char *out, size_t size, const char *format, ...)
{
	char path[PATH_SIZE];

	MAKE_PATH(path, format);
	return read_text(out, size, path);
}

int kernel_read_number(int64_t *out, const char *format, ...)
{
	char path[PATH_SIZE], text[64];
	uint64_t value;
	int r;

	MAKE_PATH(path, format);
	r = read_text(text, sizeof(text), path);
	if (r < 0)
		return r;
	if (vgpu_parse_int(text, out) == 0)
		return 0;
	if (vgpu_parse_unsigned(text, INT64_MAX, &value) < 0)
		return -EINVAL;
	*out = (int64_t)value;
	return 0;
}

static int write_text(const char *text, const char *path)
{
	int fd = vfio_kernel->open(path, O_WRONLY);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = vfio_kernel->write(fd, text, strlen(text), 0);
	close(fd);
	return n < 0 ? (int)n : (size_t)n < strlen(text) ? -EIO : 0;
}

int kernel_write_here(const char *text, const char *format, ...)
{
	char path[PATH_SIZE];

	MAKE_PATH(path, format);
	return write_text(text, path);
}

static int64_t now_ms(void)
{
	return (int64_t)(vgpu_now() / VGPU_MSEC);
}

/* Receives a number through a pipe. Returns 0; -ETIMEDOUT; -ECHILD: the writer has ended without
 * sending it. */
static int receive_result(int fd, int deadline_ms, int *result)
{
	int64_t until = now_ms() + deadline_ms, left;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;

	do {
		left = until - now_ms();
		n = poll(&p, 1, left > 0 ? (int)left : 0);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		return -ETIMEDOUT;
	return read(fd, result, sizeof(*result)) == (ssize_t)sizeof(*result) ? 0 : -ECHILD;
}

/*
 * Closes all descriptors above stderr except KEPT, which becomes standard input: a write that takes
 * long must not keep a lock, socket or device of this process in use. All are closed by one call,
 * because a process that closes connections one by one may wait for another process to close its
 * copies, and this one must not have the last copy.
 */
static void close_all_but(int kept)
{
	dup2(kept, STDIN_FILENO);
	close_range(STDERR_FILENO + 1, UINT_MAX, 0);
}

/*
 * A grandchild writes, so that a write that takes long leaves no zombie: init reaps it. Neither
 * child calls anything that needs a lock, which another thread may have held at the fork.
 */
int kernel_write_text(int deadline_ms, const char *text, const char *format, ...)
{
	char path[PATH_SIZE];
	int ends[2], result = 0, r;
	pid_t pid;

	MAKE_PATH(path, format);
	if (vfio_kernel != &vfio_real_kernel)
		return write_text(text, path);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		close_all_but(ends[1]);
		pid = _Fork();
		if (pid <= 0) {
			r = pid < 0 ? -errno : write_text(text, path);
			_exit(write(STDIN_FILENO, &r, sizeof(r)) < 0);
		}
		_exit(0);
	}
	r = pid < 0 ? -errno : 0;
	close(ends[1]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (r == 0)
		r = receive_result(ends[0], deadline_ms, &result);
	close(ends[0]);
	if (r != 0)
		return r;
	return result;
}

int kernel_each_line(const char *path, void (*each)(void *data, const char *line), void *data)
{
	int fd = vfio_kernel->open(path, O_RDONLY);
	char text[4096], *line, *end;
	size_t have = 0;
	uint64_t at = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = vfio_kernel->read(fd, text + have, sizeof(text) - 1 - have, at)) > 0) {
		at += (uint64_t)n;
		have += (size_t)n;
		for (line = text; (end = memchr(line, '\n', have)); line = end + 1) {
			*end = '\0';
			each(data, line);
			have -= (size_t)(end + 1 - line);
		}
		if (have == sizeof(text) - 1)
			have = 0; /* skip a longer line: no line of interest is so long */
		memmove(text, line, have);
	}
	close(fd);
	text[have] = '\0';
	if (n == 0 && have > 0)
		each(data, text);
	return n < 0 ? (int)n : 0;
}

int kernel_read_link(char *out, size_t size, const char *format, ...)
{
	char path[PATH_SIZE], target[PATH_SIZE];
	const char *last;
	ssize_t n;

	MAKE_PATH(path, format);
	n = vfio_kernel->readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return (int)n;
	target[n] = '\0';
	last = strrchr(target, '/');
	snprintf(out, size, "%s", last ? last + 1 : target);
	return 0;
}

static int stop_at_first(void *, const char *)
{
	return 1;
}

bool kernel_has_entries(const char *path)
{
	return vfio_kernel->list(path, stop_at_first, NULL) == 1;
}

static int is_named(void *name, const char *entry)
{
	return strcmp(name, entry) == 0;
}

bool kernel_has(const char *name, const char *format, ...)
{
	char path[PATH_SIZE], wanted[64];

	MAKE_PATH(path, format);
	snprintf(wanted, sizeof(wanted), "%s", name);
	return vfio_kernel->list(path, is_named, wanted) == 1;
}
