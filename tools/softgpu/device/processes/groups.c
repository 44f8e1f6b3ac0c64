/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "groups.h"
#include "limit.h"

#include "vgpu/descriptor.h"

/* A VF's process has four threads. */
#define MOST_TASKS "64"

struct groups {
	uint32_t n_vfs;
	char path[PATH_MAX / 2]; /* the delegated group's directory */
};

/* Writes TEXT to FILE of GROUP, a group below the delegated one; "": that one itself. */
static int write_control(const struct groups *g, const char *group, const char *file,
			 const char *text, struct vgpu_error *err)
{
	char path[PATH_MAX];
	ssize_t n;
	int fd, r;

	snprintf(path, sizeof(path), "%s/%s/%s", g->path, group, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : write(fd, text, strlen(text));
	r = n < 0 ? -errno : 0;
	vgpu_close(&fd);
	return r < 0 ? vgpu_error_set(err, r, "%s: %s", path, strerror(-r)) : 0;
}

static int make(const struct groups *g, const char *group, struct vgpu_error *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", g->path, group);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return vgpu_error_set(err, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

static void forget(const struct groups *g, const char *group)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", g->path, group);
	rmdir(path);
}

static const char *name_of(uint32_t vf, char name[16])
{
	snprintf(name, 16, "vf%u", vf);
	return name;
}

/* Returns whether systemd has marked this process's group as delegated
 * (systemd.resource-control(5), Delegate=). */
static bool is_delegated(const struct groups *g)
{
	char mark = 0;

	return getxattr(g->path, "user.delegate", &mark, 1) == 1 && mark == '1';
}

/* Moves this process to a child group and enables controllers for children: a group that has such
 * controllers cannot have processes (the kernel's admin-guide/cgroup-v2.rst, "No Internal Process
 * Constraint"). Returns 0, or -errno with the reason. */
static int divide(const struct groups *g, struct vgpu_error *err)
{
	char name[16];
	uint32_t i;
	int r = make(g, "device", err);

	if (r == 0)
		r = write_control(g, "device", "cgroup.procs", "0", err);
	if (r == 0)
		r = write_control(g, "", "cgroup.subtree_control", "+memory +pids", err);
	for (i = 0; i < g->n_vfs && r == 0; i++) {
		r = make(g, name_of(i, name), err);
		if (r == 0)
			r = write_control(g, name, "pids.max", MOST_TASKS, err);
		if (r == 0)
			r = groups_limit(g, i, 0, err);
	}
	return r;
}

int groups_create(struct groups **out, const char *root, uint32_t n_vfs, struct vgpu_error *err)
{
	struct groups *g = calloc(1, sizeof(*g));
	char own[PATH_MAX / 4];
	int r;

	*out = NULL;
	if (!g)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	g->n_vfs = n_vfs;
	if (limit_own_group(own, sizeof(own), NULL) < 0 ||
	    (size_t)snprintf(g->path, sizeof(g->path), "%s%s", root, own) >= sizeof(g->path) ||
	    !is_delegated(g)) {
		free(g);
		return 0;
	}
	r = divide(g, err);
	if (r < 0) {
		groups_destroy(g);
		return r;
	}
	*out = g;
	return 0;
}

void groups_destroy(struct groups *g)
{
	char name[16];
	uint32_t i;

	if (!g)
		return;
	for (i = 0; i < g->n_vfs; i++)
		forget(g, name_of(i, name));
	write_control(g, "", "cgroup.subtree_control", "-memory -pids", NULL);
	write_control(g, "", "cgroup.procs", "0", NULL);
	forget(g, "device");
	free(g);
}

int groups_enter(const struct groups *g, uint32_t vf, pid_t pid, struct vgpu_error *err)
{
	char name[16], text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	return write_control(g, name_of(vf, name), "cgroup.procs", text, err);
}

int groups_limit(const struct groups *g, uint32_t vf, uint64_t bytes, struct vgpu_error *err)
{
	char name[16], text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)(bytes + GROUPS_ALLOWANCE));
	return write_control(g, name_of(vf, name), "memory.max", text, err);
}
