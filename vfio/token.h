/* SPDX-License-Identifier: MIT */
/* The token that is needed to open VFs while VFIO holds their PF: a random UUID, secret, one for
 * this host. */
#pragma once

#include "vfio/device.h"

#define TOKEN_SIZE VFIO_TOKEN_SIZE
#define TOKEN_FILE "/var/lib/vgpud/vf-token"

/* Reads the token from PATH; with MAKE, makes a missing file, which only its owner can read.
 * Returns 0, or -errno with the reason in ERR. */
int token_load(const char *path, bool make, char out[TOKEN_SIZE], struct vgpu_error *err);
