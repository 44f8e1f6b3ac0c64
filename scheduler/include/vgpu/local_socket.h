/* SPDX-License-Identifier: MIT */
/*
 * Unix sockets: connecting, listening, and descriptors that go along with data. Sockets are closed
 * by exec; nothing raises SIGPIPE; calls that a signal interrupts are made again. Any thread.
 */
#ifndef VGPU_LOCAL_SOCKET_H
#define VGPU_LOCAL_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "vgpu/types.h"

/* The longest path of a socket, with its NUL: what fits into a struct sockaddr_un. */
#define VGPU_SOCKET_PATH 108u

/*
 * A stream socket that is connected to PATH, or to an abstract name where PATH begins with '@';
 * FLAGS: 0 or SOCK_NONBLOCK. The caller's, or -errno:
 * -ENAMETOOLONG, -ENOENT, -ECONNREFUSED (nobody listens), -EAGAIN (not blocking, and too many
 * wait).
 */
int vgpu_socket_connect(const char *path, int flags);
/* The same, blocking for at most PATIENCE here (-ETIMEDOUT: too many wait, and nobody accepts
 * them), and in each later call that sends (-EAGAIN). */
int vgpu_socket_connect_within(const char *path, vgpu_nsec patience);

/*
 * A stream socket that listens at PATH, with MODE (0: by the umask) and room for BACKLOG that wait,
 * and does not block. A socket at PATH that nobody listens at is replaced; anything else stays, and
 * is an error. The caller's, who unlinks PATH in the end; or -errno with the reason.
 */
int vgpu_socket_listen(const char *path, mode_t mode, int backlog, struct vgpu_error *err);

/* The path of vgpud's socket for programs and containers, unless it is configured, beside the
 * control socket at CONTROL: where packages have it, in a directory of its own. SIZE: as
 * VGPU_SOCKET_PATH. */
void vgpu_socket_of_tenants(const char *control, char *out, size_t size);

/* Most descriptors in one message, either way. */
#define VGPU_MESSAGE_FDS 16u

/*
 * sendmsg() of N parts, with N_FDS descriptors, which stay the caller's; FLAGS: 0 or MSG_DONTWAIT.
 * How many bytes were sent (descriptors go with the first), or -errno.
 */
ssize_t vgpu_socket_send(int fd, struct iovec *parts, size_t n, const int *fds, uint32_t n_fds,
			 int flags);
/* All of it, on a socket that blocks; 0 or -errno. */
int vgpu_socket_send_all(int fd, const void *data, size_t size);

/* What came beside the data. */
struct vgpu_received {
	uint32_t n_fds;
	int fds[VGPU_MESSAGE_FDS]; /* closed by exec; the receiver's */
	struct ucred from;	   /* with SO_PASSCRED; else, and if it did not come, pid is 0 */
};

/*
 * recvmsg() into DATA; FLAGS: 0 or MSG_DONTWAIT. How many bytes came, 0 at the end of a stream, or
 * -errno. -EMSGSIZE: something of the message got lost, be it descriptors for which there was no
 * room or that would have been one too many for this process, or the end of a datagram; then none
 * of its descriptors stays open, and a stream is of no more use.
 */
ssize_t vgpu_socket_receive(int fd, void *data, size_t size, int flags, struct vgpu_received *out);
/* Closes the descriptors that came, but those that have become -1. */
void vgpu_received_drop(struct vgpu_received *received);

#endif
