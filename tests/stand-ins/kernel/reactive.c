/* SPDX-License-Identifier: MIT */
#include "reactive.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#define MAX_FDS 512

_Atomic unsigned reactive_calls, reactive_fail_at;
char reactive_trace[16384];

static const struct reactive *files;
static const struct vfio_kernel *below; /* the machine */
static struct vfio_kernel kernel;
static char paths[MAX_FDS][200];
static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;

void reactive_lock(void)
{
	pthread_mutex_lock(&all);
}

void reactive_unlock(void)
{
	pthread_mutex_unlock(&all);
}

static bool fails(void)
{
	return ++reactive_calls == reactive_fail_at;
}

/* The last two parts of the path. */
static void trace(const char *path, const char *text)
{
	size_t n = strlen(reactive_trace), length = strcspn(text, "\n");
	const char *name = strrchr(path, '/');

	while (name > path && name[-1] != '/')
		name--;
	CU_ASSERT_FATAL(n + 200 < sizeof(reactive_trace));
	snprintf(reactive_trace + n, sizeof(reactive_trace) - n, "%s=%.*s\n", name, (int)length,
		 text);
}

static int fake_open(const char *path, int flags)
{
	int fd;

	pthread_mutex_lock(&all);
	fd = fails() ? -EIO : below->open(path, flags);
	if (fd >= 0 && fd < MAX_FDS)
		snprintf(paths[fd], sizeof(paths[0]), "%s", path);
	pthread_mutex_unlock(&all);
	return fd;
}

static ssize_t fake_read(int fd, void *data, size_t size, uint64_t offset)
{
	char text[4096];
	ssize_t r;

	pthread_mutex_lock(&all);
	if (fails()) {
		r = -EIO;
	} else if (!files->is_ours(paths[fd])) {
		r = below->read(fd, data, size, offset);
	} else {
		r = offset ? 0 : files->show(paths[fd], text, sizeof(text));
		if (r > 0 && (size_t)r > size)
			r = (ssize_t)size;
		if (r > 0)
			memcpy(data, text, (size_t)r);
	}
	pthread_mutex_unlock(&all);
	return r;
}

static ssize_t fake_write(int fd, const void *data, size_t size, uint64_t offset)
{
	char text[256];
	ssize_t r;

	pthread_mutex_lock(&all);
	snprintf(text, sizeof(text), "%.*s", (int)size, (const char *)data);
	if (fails()) {
		r = -EIO;
	} else if (files->is_ours(paths[fd])) {
		trace(paths[fd], text);
		r = files->store(paths[fd], text);
	} else {
		trace(paths[fd], text);
		/* The machine reads its own files; nobody else runs while it binds drivers. */
		vfio_kernel = below;
		r = below->write(fd, data, size, offset);
		vfio_kernel = &kernel;
	}
	pthread_mutex_unlock(&all);
	return r < 0 ? r : (ssize_t)size;
}

static ssize_t fake_readlink(const char *path, char *out, size_t size)
{
	ssize_t r;

	pthread_mutex_lock(&all);
	r = fails() ? -EIO : below->readlink(path, out, size);
	pthread_mutex_unlock(&all);
	return r;
}

static int fake_list(const char *path, int (*each)(void *data, const char *name), void *data)
{
	bool failed;

	pthread_mutex_lock(&all);
	failed = fails();
	pthread_mutex_unlock(&all);
	/* EACH may call the kernel. */
	return failed ? -EIO : below->list(path, each, data);
}

void react(const struct reactive *with)
{
	files = with;
	reactive_calls = reactive_fail_at = 0;
	reactive_trace[0] = '\0';
	below = vfio_kernel;
	kernel = *below;
	kernel.open = fake_open;
	kernel.read = fake_read;
	kernel.write = fake_write;
	kernel.readlink = fake_readlink;
	kernel.list = fake_list;
	vfio_kernel = &kernel;
}
