/* SPDX-License-Identifier: MIT */
/* The null drivers' options, which follow "null:" or "null-firmware:" in a device's name. */
#pragma once

#include "vgpu/driver.h"

#define NULL_PREFIX "null:"
#define NULL_FIRMWARE_PREFIX "null-firmware:"

struct null_options {
	uint32_t max_vfs;
	uint64_t memory;   /* bytes */
	vgpu_nsec command; /* duration of each command */
	vgpu_vf_set busy;  /* VFs that have work while their driver is up */
	vgpu_vf_set hangs; /* VFs that never stop by themselves */
};

struct null_firmware_options {
	uint32_t max_vfs;
	vgpu_vf_set busy; /* VFs that have work */
	uint32_t late_vf; /* stops `late` after the end of each of its turns; VGPU_NO_VF: none */
	vgpu_nsec late;
	vgpu_nsec program; /* duration of programming a schedule */
	vgpu_nsec served;  /* first value of usage(), as on a GPU that was in use before */
	vgpu_nsec freeze;  /* when usage() stops counting; some GPUs' counters freeze at a reset */
};

/* Parse DEVICE: the prefix, then options NAME=VALUE, separated by commas. Return 0, or -EINVAL with
 * the reason in ERR. */
int null_read_options(const char *device, struct null_options *out, struct vgpu_error *err);
int null_read_firmware_options(const char *device, struct null_firmware_options *out,
			       struct vgpu_error *err);
