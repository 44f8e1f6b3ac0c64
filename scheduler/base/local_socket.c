/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "vgpu/descriptor.h"
#include "vgpu/local_socket.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

_Static_assert(sizeof(((struct sockaddr_un *)NULL)->sun_path) == VGPU_SOCKET_PATH, "a path's size");

/* The length of PATH's address, or -ENAMETOOLONG. An abstract name begins with '@', as in
 * /proc/net/unix. */
static int make_address(const char *path, struct sockaddr_un *out)
{
	size_t length = strlen(path);

	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (length >= sizeof(out->sun_path))
		return -ENAMETOOLONG;
	memcpy(out->sun_path, path, length);
	if (path[0] != '@')
		return sizeof(*out);
	out->sun_path[0] = '\0';
	return (int)(offsetof(struct sockaddr_un, sun_path) + length);
}

/* TIMEOUT: how long connect() and sending may block; NULL: for ever. */
static int connect_to(const char *path, int flags, const struct timeval *timeout)
{
	struct sockaddr_un address;
	VGPU_AUTO_CLOSE int fd = -1;
	int size = make_address(path, &address);

	if (size < 0)
		return size;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd < 0 ||
	    (timeout && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, timeout, sizeof(*timeout)) < 0) ||
	    connect(fd, (struct sockaddr *)&address, (socklen_t)size) < 0)
		return -errno;
	return vgpu_take(&fd);
}

int vgpu_socket_connect(const char *path, int flags)
{
	return connect_to(path, flags, NULL);
}

int vgpu_socket_connect_within(const char *path, vgpu_nsec timeout)
{
	struct timeval t = {.tv_sec = (time_t)(timeout / VGPU_SEC),
			    .tv_usec = (suseconds_t)(timeout % VGPU_SEC / VGPU_USEC)};
	int fd = connect_to(path, 0, &t);

	return fd == -EAGAIN ? -ETIMEDOUT : fd;
}

/* Removes a socket that no process listens at. Files of other kinds refuse connections, too. */
static int remove_stale(const char *path)
{
	VGPU_AUTO_CLOSE int fd = -1;
	struct stat st;

	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	fd = vgpu_socket_connect(path, SOCK_NONBLOCK);
	if (fd != -ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(path) < 0 ? -errno : 0;
}

static int bind_at(int fd, const char *path, const struct sockaddr_un *address)
{
	int r;

	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		return 0;
	if (errno != EADDRINUSE)
		return -errno;
	r = remove_stale(path);
	if (r < 0)
		return r;
	return bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;
}

void vgpu_socket_of_tenants(const char *control, char *out, size_t size)
{
	const char *slash = strrchr(control, '/');

	if (strncmp(control, "/run/vgpud/", 11) == 0)
		snprintf(out, size, "/run/vgpud-tenant/tenant.sock");
	else
		snprintf(out, size, "%.*stenant.sock", slash ? (int)(slash + 1 - control) : 0,
			 control);
}

int vgpu_socket_listen(const char *path, mode_t mode, int backlog, struct vgpu_error *err)
{
	struct sockaddr_un address;
	VGPU_AUTO_CLOSE int fd = -1;
	int r = make_address(path, &address);

	if (r < 0)
		return vgpu_error_set(err, r, "%s: longer than %u bytes", path,
				      VGPU_SOCKET_PATH - 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = fd < 0 ? -errno : bind_at(fd, path, &address);
	if (r == -EADDRINUSE)
		return vgpu_error_set(err, r, "%s: another program listens here", path);
	if (r == -ENOTSOCK)
		return vgpu_error_set(err, r, "%s: this file is not a socket: use another path",
				      path);
	if (r == 0 && ((mode && chmod(path, mode) < 0) || listen(fd, backlog) < 0)) {
		r = -errno;
		unlink(path);
	}
	if (r < 0)
		return vgpu_error_set(err, r, "%s: %s", path, strerror(-r));
	return vgpu_take(&fd);
}

ssize_t vgpu_socket_send(int fd, struct iovec *parts, size_t n, const int *fds, uint32_t n_fds,
			 int flags)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * VGPU_MESSAGE_FDS)];
	} control = {0};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = n};
	struct cmsghdr *c;
	ssize_t sent;

	if (n_fds > VGPU_MESSAGE_FDS)
		return -E2BIG;
	if (n_fds > 0) {
		m.msg_control = control.space;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	do
		sent = sendmsg(fd, &m, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent;
}

int vgpu_socket_send_all(int fd, const void *data, size_t size)
{
	struct iovec part = {(void *)data, size};
	ssize_t n;

	while (part.iov_len > 0) {
		n = vgpu_socket_send(fd, &part, 1, NULL, 0, 0);
		if (n < 0)
			return (int)n;
		part.iov_base = (char *)part.iov_base + n;
		part.iov_len -= (size_t)n;
	}
	return 0;
}

void vgpu_received_drop(struct vgpu_received *received)
{
	uint32_t i;

	for (i = 0; i < received->n_fds; i++)
		vgpu_close(&received->fds[i]);
	received->n_fds = 0;
}

/* Takes the descriptors of a control message. False: there are more than fit, and all of these were
 * closed. */
static bool take_fds(struct cmsghdr *c, struct vgpu_received *out)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int), i;
	bool all = true;
	int fd;

	for (i = 0; i < n; i++) {
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (out->n_fds < VGPU_MESSAGE_FDS) {
			out->fds[out->n_fds++] = fd;
		} else {
			close(fd);
			all = false;
		}
	}
	return all;
}

int vgpu_socket_peer(int fd, pid_t pid)
{
	socklen_t size = sizeof(int);
	int pidfd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
		return pidfd;
	if (errno != ENOPROTOOPT)
		return -errno;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return pidfd < 0 ? -errno : pidfd;
}

ssize_t vgpu_socket_receive(int fd, void *data, size_t size, int flags, struct vgpu_received *out)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(struct ucred)) +
			   CMSG_SPACE(sizeof(int) * VGPU_MESSAGE_FDS)];
	} control;
	struct iovec part = {data, size};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	bool whole = true;
	ssize_t n;

	*out = (struct vgpu_received){.n_fds = 0};
	do
		n = recvmsg(fd, &m, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS)
			memcpy(&out->from, CMSG_DATA(c), sizeof(out->from));
		if (c->cmsg_type == SCM_RIGHTS && !take_fds(c, out))
			whole = false;
	}
	if (!whole || m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		vgpu_received_drop(out);
		return -EMSGSIZE;
	}
	return n;
}
