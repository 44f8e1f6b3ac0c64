/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

#include "vgpu/types.h"

/* Writes the user as whom libvirt runs QEMU on this host: "user" of the file CONF (qemu.conf), else
 * a user whom distributions create for that, else root. */
void reach_qemu_user(const char *conf, char *name, size_t size);

/* Checks that the user NAME, or "+NUMBER", may connect to the socket PATH, by the modes of the
 * socket and of the directories above it. Returns 0, or -EACCES, -ENOENT, -EINVAL (no such user)
 * with the reason. */
int reach_socket(const char *name, const char *path, struct vgpu_error *err);
