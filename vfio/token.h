/* SPDX-License-Identifier: MIT */
/* The token that opens this host's VFs while their PF is held by VFIO: a random UUID, secret. */
#ifndef VFIO_TOKEN_H
#define VFIO_TOKEN_H

#include <stdbool.h>

#include "vfio/device.h"

#define TOKEN_SIZE VFIO_TOKEN_SIZE
#define TOKEN_FILE "/var/lib/vgpud/vf-token"

bool token_is_valid(const char *text);
/* Reads it from PATH; if there is no such file and MAKE, makes one that only root can read. 0 or
 * -errno with the reason. */
int token_load(const char *path, bool make, char out[TOKEN_SIZE], struct vgpu_error *err);

#endif
