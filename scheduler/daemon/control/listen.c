/* SPDX-License-Identifier: MIT */
#include "listen.h"

#include <errno.h>
#include <event2/util.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "service.h"
#include "vgpu/descriptor.h"
#include "vgpu/file.h"
#include "vgpu/local_socket.h"
#include "vgpu/untrusted.h"

/* Backlog of the sockets. */
#define BACKLOG 16

/* Returns whether clients that connect to PATH reach the socket FD: its path may have been changed
 * in the configuration, or removed. */
static bool is_at(int fd, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNSPEC};
	socklen_t size = sizeof(address);
	struct stat s;

	return getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
	       address.sun_family == AF_UNIX &&
	       strncmp(address.sun_path, path, sizeof(address.sun_path)) == 0 &&
	       lstat(path, &s) == 0 && S_ISSOCK(s.st_mode);
}

/* The socket that the service manager kept over a restart, or -ENOENT. Calls listen() again, so
 * that clients see this process as its owner. */
static int kept(const char *name, const char *path)
{
	VGPU_AUTO_CLOSE int fd = service_socket(name);

	if (fd < 0)
		return -ENOENT;
	if (is_at(fd, path) && evutil_make_socket_nonblocking(fd) == 0 && listen(fd, BACKLOG) == 0)
		return vgpu_take(&fd);
	service_forget(name);
	return -ENOENT;
}

int listen_open(const char *name, const char *path, mode_t mode, struct vgpu_error *err)
{
	int fd = kept(name, path);

	if (fd < 0) {
		vgpu_make_parent(path); /* after a boot /run is empty */
		fd = vgpu_socket_listen(path, mode, BACKLOG, err);
		if (fd >= 0)
			service_keep(name, fd);
	}
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

bool listen_is_free(const char *name, const char *path)
{
	VGPU_AUTO_CLOSE int fd = service_socket(name);

	if (fd >= 0)
		return true;
	fd = vgpu_socket_connect(path, SOCK_NONBLOCK);
	return fd == -ENOENT || fd == -ECONNREFUSED;
}

void listen_close(const char *path, int fd)
{
	if (service_holds()) {
		vgpu_close(&fd);
		return;
	}
	unlink(path);
	vgpu_untrusted_close_listener(&fd);
}
