/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgpu/descriptor.h"
#include "vgpu/file.h"

#define FIRST_SIZE 4096u

static void free_text(char **text)
{
	free(*text);
}

int vgpu_read_all(int fd, size_t max, char **out, size_t *size)
{
	__attribute__((cleanup(free_text))) char *text = NULL;
	size_t have = 0, room = 0;
	ssize_t n = 1;
	char *more;

	while (n != 0) {
		if (have == room) {
			if (have > max)
				return -E2BIG;
			room = room ? room * 2 : FIRST_SIZE;
			room = room > max ? max + 1 : room;
			more = realloc(text, room + 1);
			if (!more)
				return -ENOMEM;
			text = more;
		}
		n = read(fd, text + have, room - have);
		if (n < 0 && errno != EINTR)
			return -errno;
		have += n > 0 ? (size_t)n : 0;
	}
	if (have > max)
		return -E2BIG;
	text[have] = '\0';
	*out = text;
	*size = have;
	text = NULL;
	return 0;
}

int vgpu_file_read(const char *path, size_t max, char **out, size_t *size)
{
	VGPU_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : vgpu_read_all(fd, max, out, size);
}

static int write_all(int fd, const char *data, size_t size)
{
	ssize_t n;

	while (size > 0) {
		n = write(fd, data, size);
		if (n < 0 && errno != EINTR)
			return -errno;
		data += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int staged_path(const char *path, char *out)
{
	return snprintf(out, PATH_MAX, "%s" VGPU_FILE_STAGED, path) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int vgpu_file_stage(const char *path, mode_t mode, const void *data, size_t size)
{
	VGPU_AUTO_CLOSE int fd = -1;
	char staged[PATH_MAX];
	int r = staged_path(path, staged);

	if (r < 0)
		return r;
	fd = open(staged, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	r = write_all(fd, data, size);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r < 0)
		unlink(staged);
	return r;
}

int vgpu_file_commit(const char *path)
{
	char staged[PATH_MAX];
	int r = staged_path(path, staged);

	if (r == 0 && rename(staged, path) < 0) {
		r = -errno;
		unlink(staged);
	}
	return r;
}

void vgpu_file_discard(const char *path)
{
	char staged[PATH_MAX];

	if (staged_path(path, staged) == 0)
		unlink(staged);
}

int vgpu_file_replace(const char *path, mode_t mode, const void *data, size_t size)
{
	int r = vgpu_file_stage(path, mode, data, size);

	return r == 0 ? vgpu_file_commit(path) : r;
}

int vgpu_make_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX];

	if (!slash || slash == path || (size_t)(slash - path) >= sizeof(directory))
		return 0;
	snprintf(directory, sizeof(directory), "%.*s", (int)(slash - path), path);
	return mkdir(directory, 0755) < 0 && errno != EEXIST ? -errno : 0;
}
