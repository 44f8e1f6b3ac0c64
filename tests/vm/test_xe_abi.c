/* SPDX-License-Identifier: MIT */
/* test-xe-abi ADMIN FILE FAULTS: holds a sriov_admin of this kernel against tests/abi/xe-admin.
 * FAULTS is the folder of what can be made to fail. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "xe_abi.h"

struct folders {
	const char *admin, *faults;
};

static int open_in(const char *folder, const char *path, int flags)
{
	char full[256];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", folder, path);
	fd = open(full, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int mode_of(void *data, const char *path)
{
	const struct folders *f = data;
	char full[256];
	struct stat st;

	snprintf(full, sizeof(full), "%s/%s", f->admin, path);
	return stat(full, &st) < 0 ? -errno : (int)(st.st_mode & 07777);
}

static int read_one(void *data, const char *path, char *out, size_t size)
{
	const struct folders *f = data;
	int fd = open_in(f->admin, path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, out, size);
	n = n < 0 ? -errno : n;
	close(fd);
	return (int)n;
}

static int write_in(const char *folder, const char *path, const char *text, size_t size)
{
	int fd = open_in(folder, path, O_WRONLY), r;

	if (fd < 0)
		return fd;
	r = write(fd, text, size) < 0 ? -errno : 0;
	close(fd);
	return r;
}

static int write_one(void *data, const char *path, const char *text, size_t size)
{
	const struct folders *f = data;

	return write_in(f->admin, path, text, size);
}

static int fault(void *data, const char *kind, unsigned times)
{
	const struct folders *f = data;
	char text[16];

	snprintf(text, sizeof(text), "%u", times);
	return write_in(f->faults, kind, text, strlen(text));
}

int main(int argc, char **argv)
{
	struct folders f;
	struct xe_abi abi = {
		.data = &f, .mode = mode_of, .read = read_one, .write = write_one, .fault = fault};

	if (argc != 4)
		return 2;
	f = (struct folders){argv[1], argv[3]};
	return xe_abi_compare(argv[2], &abi) != 0;
}
