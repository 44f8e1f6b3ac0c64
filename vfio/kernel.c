/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vfio/kernel.h"

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

static void *real_map(int fd, size_t size, uint64_t offset)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	return at == MAP_FAILED ? NULL : at;
}

static ssize_t real_readlink(const char *path, char *out, size_t size)
{
	ssize_t n = readlink(path, out, size);

	return n < 0 ? -errno : n;
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

const struct vfio_kernel vfio_real_kernel = {
	.open = real_open,
	.read = real_read,
	.write = real_write,
	.ioctl = real_ioctl,
	.map = real_map,
	.readlink = real_readlink,
	.list = real_list,
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
	char path[PATH_SIZE], text[64], *end;
	int r;

	MAKE_PATH(path, format);
	r = read_text(text, sizeof(text), path);
	if (r < 0)
		return r;
	errno = 0;
	*out = strtoll(text, &end, 0);
	return r == 0 || *end || errno ? -EINVAL : 0;
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

/* The child does nothing that another thread's lock could stop. */
int kernel_write_text(int deadline_ms, const char *text, const char *format, ...)
{
	char path[PATH_SIZE];
	struct pollfd p = {.events = POLLIN};
	int status, r = -ETIMEDOUT;
	pid_t pid;

	MAKE_PATH(path, format);
	if (vfio_kernel != &vfio_real_kernel)
		return write_text(text, path);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(-write_text(text, path) & 0xff);
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0 || poll(&p, 1, deadline_ms) == 1) {
		r = -ECHILD;
		if (waitpid(pid, &status, 0) == pid && WIFEXITED(status))
			r = -WEXITSTATUS(status);
	}
	if (p.fd >= 0)
		close(p.fd);
	return r;
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

static int stop_at_first(void *data, const char *name)
{
	(void)data;
	(void)name;
	return 1;
}

bool kernel_has_entries(const char *path)
{
	return vfio_kernel->list(path, stop_at_first, NULL) == 1;
}
