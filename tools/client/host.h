/* SPDX-License-Identifier: MIT */
/*
 * Which libvirt this is. Two of them on one kernel, in containers, have domains of their own, and
 * perhaps the same domain while it moves from one to the other; both may use one vgpud. What the
 * hook of a libvirt and its vgpud-libvirt both see, and no other libvirt does, is the directory
 * with libvirt's sockets. Any thread.
 */
#pragma once

#include "vgpu/types.h"

#define CLIENT_HOST_SIZE 40

/* Names the libvirt with the connection URI (NULL: the system's) by the device and inode of that
 * directory. The environment's VGPUD_LIBVIRT_DIR, if set, is that directory. Returns 0, or -errno
 * with a sentence in ERR: there is no such directory, as of a libvirt on another machine. */
int client_host(const char *uri, char out[CLIENT_HOST_SIZE], struct vgpu_error *err);
