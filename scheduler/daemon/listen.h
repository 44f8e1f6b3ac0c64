/* SPDX-License-Identifier: MIT */
/* Sockets to listen on: the service manager's, which outlive us, or our own. */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include <sys/socket.h>
#include <sys/types.h>

#include "vgpu/types.h"

/* The service manager's socket NAME, or one at PATH, with MODE, where nobody else may listen. A
 * descriptor that does not block and is the caller's, or -errno with the reason. */
int listen_open(const char *name, const char *path, mode_t mode, struct vgpu_error *err);
/* Who is at the other end of a connection. -errno if that cannot be told: then it is nobody, and
 * above all not root. */
int listen_peer(int fd, struct ucred *out);
/* Takes our own socket away; the service manager's stay, for our next life. */
void listen_close(const char *name, const char *path);

#endif
