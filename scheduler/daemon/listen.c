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

/* After a boot /run is empty: makes the socket's directory. */
static void make_parent(const char *path)
{
	char dir[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	char *slash;

	strcpy(dir, path);
	slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return;
	*slash = '\0';
	if (mkdir(dir, 0755) < 0)
		return; /* it exists, or bind() reports the error */
}

int listen_open(const char *name, const char *path, mode_t mode, struct vgpu_error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = service_socket(name), r = 0;

	if (fd >= 0)
		return evutil_make_socket_nonblocking(fd) < 0 ? -errno : fd;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	strcpy(address.sun_path, path);
	if (fd < 0)
		return vgpu_error_set(err, -errno, "%s: %s", path, strerror(errno));
	make_parent(path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
		close(fd);
		return vgpu_error_set(err, -EADDRINUSE, "%s: another vgpud listens here", path);
	}
	if (errno == ECONNREFUSED)
		unlink(path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || chmod(path, mode) < 0 ||
	    listen(fd, 16) < 0)
		r = vgpu_error_set(err, -errno, "%s: %s", path, strerror(errno));
	if (r < 0) {
		close(fd);
		return r;
	}
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

void listen_close(const char *name, const char *path)
{
	int fd = service_socket(name);

	if (fd < 0)
		unlink(path);
	else
		close(fd);
}
