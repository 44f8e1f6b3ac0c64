/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sockets.h"
#include "softgpu.h"

#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#define BACKLOG 4

/* The users and groups with which distributions have libvirt run QEMU. */
static const char *const qemu_users[] = {"libvirt-qemu", "qemu"};
static const char *const qemu_groups[] = {"kvm", "qemu"};

/* Returns the user with one of the names, or NULL. */
static const struct passwd *find_user(const char *const *names, size_t n)
{
	const struct passwd *user = NULL;
	size_t i;

	for (i = 0; i < n && !user; i++)
		user = getpwnam(names[i]);
	return user;
}

static const struct group *find_group(const char *const *names, size_t n)
{
	const struct group *group = NULL;
	size_t i;

	for (i = 0; i < n && !group; i++)
		group = getgrnam(names[i]);
	return group;
}

static int parse_mode(const char *text, mode_t *out, struct vgpu_error *err)
{
	char *end;
	unsigned long mode = strtoul(text, &end, 8);

	if (!*text || strspn(text, "01234567") != strlen(text) || mode > 0777)
		return vgpu_error_set(err, -EINVAL,
				      "--socket-mode %s: want an octal mode of up to 777", text);
	*out = (mode_t)mode;
	return 0;
}

int sockets_access(struct sockets *s, const char *user, const char *group, const char *mode,
		   struct vgpu_error *err)
{
	const size_t users = sizeof(qemu_users) / sizeof(*qemu_users);
	const size_t groups = sizeof(qemu_groups) / sizeof(*qemu_groups);
	const struct passwd *owner = NULL;
	const struct group *members = NULL;

	s->found = !user && !group;
	if (user || geteuid() == 0)
		owner = find_user(user ? &user : qemu_users, user ? 1 : users);
	if (user && !owner)
		return vgpu_error_set(err, -EINVAL, "--socket-user %s: there is no such user",
				      user);
	if (group || (owner && !user))
		members = find_group(group ? &group : qemu_groups, group ? 1 : groups);
	if (group && !members)
		return vgpu_error_set(err, -EINVAL, "--socket-group %s: there is no such group",
				      group);
	s->uid = owner ? owner->pw_uid : (uid_t)-1;
	s->gid = members ? members->gr_gid : owner ? owner->pw_gid : (gid_t)-1;
	return parse_mode(mode ? mode : "600", &s->mode, err);
}

int sockets_own(struct sockets *s, struct vgpu_error *err)
{
	VGPU_AUTO_CLOSE int fd = -1;
	char path[VGPU_SOCKET_PATH];

	if (mkdir(s->dir, 0755) < 0 && errno != EEXIST)
		return vgpu_error_set(err, -errno, "%s: %s", s->dir, strerror(errno));
	/* Not the directory itself: every process that can open it could lock it. The file stays:
	 * with the next one, of the same name, two could have a lock. */
	snprintf(path, sizeof(path), "%s/.lock", s->dir);
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return vgpu_error_set(err, -errno, "%s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return vgpu_error_set(err, -EADDRINUSE,
				      "--dir %s: another softgpu has its sockets there: end it, or "
				      "use another directory",
				      s->dir);
	s->owned = vgpu_take(&fd);
	return 0;
}

void sockets_disown(struct sockets *s)
{
	vgpu_close(&s->owned);
}

static void path_of(const struct sockets *s, int vf, char path[VGPU_SOCKET_PATH])
{
	snprintf(path, VGPU_SOCKET_PATH, "%s/vf%d.sock", s->dir, vf);
}

int sockets_listen(const struct sockets *s, int vf, struct vgpu_error *err)
{
	char path[VGPU_SOCKET_PATH];
	int fd, r;

	path_of(s, vf, path);
	/* The mode first: a process without CAP_FOWNER changes no mode of another user's file. */
	fd = vgpu_socket_listen(path, s->mode, BACKLOG, err);
	if (fd < 0 || lchown(path, s->uid, s->gid) == 0)
		return fd;
	r = -errno;
	if (s->found) {
		fprintf(stderr,
			"<4>softgpu: %s stays root's, and QEMU of another user cannot use it: it "
			"cannot be given to user %u: %s\n",
			path, (unsigned)s->uid, strerror(-r));
		return fd;
	}
	unlink(path);
	close(fd);
	return vgpu_error_set(err, r, "%s cannot be given to user %d, group %d: %s", path,
			      (int)s->uid, (int)s->gid, strerror(-r));
}

void sockets_remove(const struct sockets *s, uint32_t n)
{
	char path[VGPU_SOCKET_PATH];

	for (; n < SOFTGPU_MAX_VFS; n++) {
		path_of(s, (int)n, path);
		unlink(path);
	}
}
