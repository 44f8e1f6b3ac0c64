/* SPDX-License-Identifier: MIT */
/* Listening sockets. A service manager holds them while vgpud restarts, and clients wait. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "vgpu/types.h"

/* Takes the socket that was kept by NAME and is still at PATH, or makes one there with MODE, and
 * has it kept. Returns a non-blocking descriptor, which the caller closes; -EADDRINUSE if another
 * process listens at PATH; or -errno; with the reason in ERR. */
int listen_open(const char *name, const char *path, mode_t mode, struct vgpu_error *err);
/* Gets the credentials of the peer. Returns 0 or -errno; the caller must then refuse the peer,
 * never treat it as root. */
int listen_peer(int fd, struct ucred *out);
/* Returns whether no other process listens at PATH: the socket NAME was kept for this one, or no
 * process accepts connections there. */
bool listen_is_free(const char *name, const char *path);
/* Closes FD, if it is not -1, and unlinks the socket, unless it is kept for the next vgpud with its
 * waiting clients. */
void listen_close(const char *path, int fd);
