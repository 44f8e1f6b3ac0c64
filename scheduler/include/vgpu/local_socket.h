/* SPDX-License-Identifier: MIT */
/*
 * Unix sockets: connecting, listening, and passing descriptors. Sockets are close-on-exec; nothing
 * raises SIGPIPE; interrupted calls are repeated. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "vgpu/types.h"

/* The longest path of a socket, with its NUL: what fits into a struct sockaddr_un. */
#define VGPU_SOCKET_PATH 108u

/*
 * Returns a stream socket connected to PATH, or to an abstract name where PATH begins with '@';
 * FLAGS: 0 or SOCK_NONBLOCK. Owned by the caller. Or -errno: -ENAMETOOLONG, -ENOENT, -ECONNREFUSED
 * (no process listens), -EAGAIN (not blocking, and the backlog is full).
 */
int vgpu_socket_connect(const char *path, int flags);
/* Returns a pidfd of the process PID that has connected to FD, owned by the caller, or -errno. What
 * was read by PID before is that process's if the pidfd shows that it has not ended. Linux
 * before 6.5 knows only the number, which may be another process's by now. */
int vgpu_socket_peer(int fd, pid_t pid);
/* As vgpu_socket_connect, but blocks for at most TIMEOUT here (-ETIMEDOUT: the backlog stayed
 * full), and in each later call that sends (-EAGAIN). */
int vgpu_socket_connect_within(const char *path, vgpu_nsec timeout);

/*
 * Returns a non-blocking stream socket that listens at PATH, with MODE (0: by the umask) and
 * BACKLOG. Replaces a socket at PATH that no process listens at; anything else at PATH stays and is
 * an error. Owned by the caller, who unlinks PATH in the end. Or -errno with the reason.
 */
int vgpu_socket_listen(const char *path, mode_t mode, int backlog, struct vgpu_error *err);

/* Writes the default path of vgpud's socket for programs and containers: the one of the packages
 * for their control socket, else a directory of its own beside CONTROL. SIZE: as
 * VGPU_SOCKET_PATH. */
void vgpu_socket_of_tenants(const char *control, char *out, size_t size);

/* Most descriptors in one message, either way. */
#define VGPU_MESSAGE_FDS 16u

/*
 * sendmsg() of N parts, with N_FDS descriptors, which the caller still owns; FLAGS: 0 or
 * MSG_DONTWAIT. Returns the number of bytes sent (the first one carries the descriptors), or
 * -errno.
 */
ssize_t vgpu_socket_send(int fd, struct iovec *parts, size_t n, const int *fds, uint32_t n_fds,
			 int flags);
/* Sends all SIZE bytes on a socket that blocks; 0 or -errno. */
int vgpu_socket_send_all(int fd, const void *data, size_t size);

/* The ancillary data of a message. */
struct vgpu_received {
	uint32_t n_fds;
	int fds[VGPU_MESSAGE_FDS]; /* close-on-exec; owned by the receiver */
	struct ucred from;	   /* with SO_PASSCRED; pid is 0 if no credentials came */
};

/*
 * recvmsg() into DATA; FLAGS: 0 or MSG_DONTWAIT. Returns the number of bytes, 0 at the end of a
 * stream, or -errno. -EMSGSIZE: a part of the message was lost: descriptors for which there was no
 * room or that would have exceeded the process's limit, or the end of a datagram. Then none of its
 * descriptors stays open, and a stream is unusable.
 */
ssize_t vgpu_socket_receive(int fd, void *data, size_t size, int flags, struct vgpu_received *out);
/* Closes the descriptors that came, but those that have become -1. */
void vgpu_received_drop(struct vgpu_received *received);
