/* SPDX-License-Identifier: MIT */
#ifndef VFIO_USER_CLIENT_H
#define VFIO_USER_CLIENT_H

#include "vfio/device.h"

/* Opens the device at the socket PATH. */
int vfio_user_open(struct vfio_device **out, const char *path, struct vgpu_error *err);

#endif
