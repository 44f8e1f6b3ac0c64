/* SPDX-License-Identifier: MIT */
/* The null driver's options, which follow "null:" in a device's name. */
#ifndef NULL_DRIVER_H
#define NULL_DRIVER_H

#include "vgpu/driver.h"

#define NULL_PREFIX "null:"

struct null_options {
	uint32_t max_vfs;
	uint64_t memory;   /* bytes */
	vgpu_nsec command; /* how long each command takes */
	uint32_t busy;	   /* bitmap of VFs that have work while their driver is up */
	uint32_t hangs;	   /* bitmap of VFs that never stop by themselves */
};

/* Parses DEVICE: "null:", then options NAME=VALUE, separated by commas. Returns 0, or -EINVAL with
 * the reason in ERR. */
int null_read_options(const char *device, struct null_options *out, struct vgpu_error *err);

#endif
