/* SPDX-License-Identifier: MIT */
#include "passage.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "control/door.h"
#include "vgpu/descriptor.h"
#include "vgpu/untrusted.h"

#define BACKLOG 16

struct passage {
	struct door *door;
	struct share *share;
	char lease[VGPU_SOCKET_PATH], dir[VGPU_SOCKET_PATH], socket[VGPU_SOCKET_PATH];
	char vf[VGPU_SOCKET_PATH];
};

/* Returns a blocking connection to the VF, as its client expects; or -errno. */
static int connect_vf(const struct passage *p)
{
	VGPU_AUTO_CLOSE int fd = vgpu_socket_connect(p->vf, SOCK_NONBLOCK);

	if (fd >= 0 && fcntl(fd, F_SETFL, 0) < 0)
		return -errno;
	return vgpu_take(&fd);
}

/* A client that does not receive its connection loses it: vgpud does not wait for it. */
static bool admit(int client, void *data)
{
	struct passage *p = data;
	vgpu_nsec begun = share_clock();
	VGPU_AUTO_CLOSE int vf = connect_vf(p);
	char text[160] = "";
	struct iovec part = {text, 1};

	if (vf < 0)
		part.iov_len = (size_t)snprintf(
			text, sizeof(text), "%s",
			vf == -EAGAIN ? "too many programs wait for this VF"
				      : "the VF cannot be reached: its GPU's process does not run");
	vgpu_socket_send(client, &part, 1, &vf, vf >= 0, MSG_DONTWAIT);
	vgpu_untrusted_close(&client);
	share_charge(p->share, begun);
	return false;
}

static bool shed(void *)
{
	return false;
}

static int find(struct passage *p, const char *parent, const char *lease, const char *vf)
{
	int n = snprintf(p->socket, sizeof(p->socket), "%s/%s/" PASSAGE_DIR "/" PASSAGE_SOCKET,
			 parent, lease);

	if (n >= (int)sizeof(p->socket) ||
	    snprintf(p->vf, sizeof(p->vf), "%s", vf) >= (int)sizeof(p->vf))
		return -ENAMETOOLONG;
	snprintf(p->lease, sizeof(p->lease), "%s/%s", parent, lease);
	snprintf(p->dir, sizeof(p->dir), "%s/%s/" PASSAGE_DIR, parent, lease);
	return 0;
}

static void remove_all(const struct passage *p)
{
	unlink(p->socket);
	rmdir(p->dir);
	rmdir(p->lease);
}

/* Lets OWNER, besides root, enter the directory: an entry of its access control list, which needs
 * no capability (linux/posix_acl_xattr.h). */
static int let_pass(const char *path, uid_t owner)
{
	struct {
		uint32_t version;
		struct {
			uint16_t tag, permissions;
			uint32_t id;
		} entries[5];
	} acl = {htole32(2),
		 {{htole16(0x01), htole16(7), htole32(UINT32_MAX)}, /* the file's owner */
		  {htole16(0x02), htole16(1), htole32(owner)},	    /* this user */
		  {htole16(0x04), htole16(0), htole32(UINT32_MAX)}, /* the file's group */
		  {htole16(0x10), htole16(1),
		   htole32(UINT32_MAX)}, /* mask: the most for users and groups */
		  {htole16(0x20), htole16(0), htole32(UINT32_MAX)}}}; /* others */

	if (owner == geteuid())
		return 0;
	return setxattr(path, "system.posix_acl_access", &acl, sizeof(acl), 0) < 0 ? -errno : 0;
}

static int make_dir(const char *path, mode_t mode)
{
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return -errno;
	return chmod(path, mode) < 0 ? -errno : 0; /* regardless of the umask */
}

static int make(struct passage *p, uid_t owner, struct vgpu_error *err)
{
	const char *at = p->lease;
	int r = make_dir(p->lease, 0700);

	if (r == 0)
		r = let_pass(p->lease, owner);
	if (r == 0) {
		at = p->dir;
		r = make_dir(p->dir, 0755);
	}
	return r < 0 ? vgpu_error_set(err, r, "%s: %s", at, strerror(-r)) : 0;
}

int passage_open(struct passage **out, struct event_base *base, struct share *share,
		 const char *parent, const char *lease, uid_t owner, const char *vf,
		 struct vgpu_error *err)
{
	static const struct door_ops ops = {admit, shed};
	struct passage *p = calloc(1, sizeof(*p));
	int r, fd = -1;

	if (!p)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	p->share = share;
	r = find(p, parent, lease, vf);
	if (r < 0) {
		free(p);
		return vgpu_error_set(err, r, "%s/%s: the path is too long", parent, lease);
	}
	r = make(p, owner, err);
	if (r == 0) {
		fd = vgpu_socket_listen(p->socket, 0666, BACKLOG, err);
		r = fd < 0 ? fd : 0;
	}
	if (r == 0) {
		vgpu_untrusted_prepare(fd);
		r = door_open(&p->door, base, fd, p->socket, DOOR_RESERVE, &ops, p);
		if (r < 0)
			vgpu_error_set(err, r, "out of memory");
	}
	if (r < 0) {
		passage_close(p);
		return r;
	}
	*out = p;
	return 0;
}

const char *passage_dir(const struct passage *p)
{
	return p->dir;
}

void passage_leave(struct passage *p)
{
	int fd;

	if (!p)
		return;
	fd = door_close(p->door);
	vgpu_untrusted_close_listener(&fd);
	free(p);
}

void passage_close(struct passage *p)
{
	if (p)
		remove_all(p);
	passage_leave(p);
}

void passage_remove(const char *parent, const char *lease)
{
	struct passage p = {0};

	if (find(&p, parent, lease, "") == 0)
		remove_all(&p);
}
