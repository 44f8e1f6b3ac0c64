/* SPDX-License-Identifier: MIT */
#include "listen.h"

#include <errno.h>
#include <event2/util.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service.h"
#include "vgpu/descriptor.h"
#include "vgpu/file.h"
#include "vgpu/local_socket.h"
#include "vgpu/untrusted.h"

/* Connections that may wait to be accepted. */
#define BACKLOG 16

int listen_open(const char *name, const char *path, mode_t mode, struct vgpu_error *err)
{
	int fd = service_socket(name);

	if (fd >= 0) {
		vgpu_untrusted_prepare(fd);
		return evutil_make_socket_nonblocking(fd) < 0 ? -errno : fd;
	}
	vgpu_make_parent(path); /* after a boot /run is empty */
	fd = vgpu_socket_listen(path, mode, BACKLOG, err);
	if (fd >= 0)
		vgpu_untrusted_prepare(fd);
	return fd;
}

int listen_peer(int fd, struct ucred *out)
{
	struct ucred peer = {.uid = (uid_t)-1, .gid = (gid_t)-1};
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	if (size != sizeof(peer) || peer.uid == (uid_t)-1)
		return -ENODATA;
	*out = peer;
	return 0;
}

void listen_close(const char *name, const char *path, int fd)
{
	int kept = service_socket(name);

	if (kept >= 0) {
		vgpu_close(&fd);
		close(kept);
		return;
	}
	unlink(path);
	vgpu_untrusted_close_listener(&fd);
}
