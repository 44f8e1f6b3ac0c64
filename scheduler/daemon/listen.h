/* SPDX-License-Identifier: MIT */
/* Listening sockets: the service manager's, which outlive vgpud, or our own. */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include <sys/socket.h>
#include <sys/types.h>

#include "vgpu/types.h"

/* Takes the service manager's socket NAME, or, if it has none, makes one at PATH with MODE. Returns
 * a non-blocking descriptor, which the caller closes; -EADDRINUSE if another process listens at
 * PATH; or -errno; with the reason in ERR. */
int listen_open(const char *name, const char *path, mode_t mode, struct vgpu_error *err);
/* Gets the credentials of the process at the other end. Returns 0 or -errno; the peer is then to be
 * refused, never taken for root. */
int listen_peer(int fd, struct ucred *out);
/* Closes FD, if it is not -1, and unlinks our own socket; the service manager's stays for the next
 * vgpud, with who waits there. */
void listen_close(const char *name, const char *path, int fd);

#endif
