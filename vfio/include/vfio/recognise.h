/* SPDX-License-Identifier: MIT */
/* Which GPU a PF is, before anything is done to it. Any thread; nothing blocks. */
#ifndef VFIO_RECOGNISE_H
#define VFIO_RECOGNISE_H

#include <stddef.h>
#include <stdint.h>

#include "vgpu/types.h"

/* A PF that the GPU-IOV driver knows, and where its capabilities lie. */
struct gpuiov_identity {
	const char *model; /* static */
	uint16_t sriov, cap;
	uint32_t cap_length; /* of the GPU-IOV capability, bytes */
};

#define GPUIOV_CONFIG_SIZE 4096u

/*
 * Recognises a PF by maker, device, SR-IOV and GPU-IOV capability, from the first SIZE bytes of its
 * configuration space, as far as they could be read. Touches nothing: it is asked before a function
 * is taken from its driver. 0, or -ENODEV (-EACCES: only its header could be read) with the reason.
 */
int gpuiov_recognise(const uint8_t config[GPUIOV_CONFIG_SIZE], size_t size,
		     struct gpuiov_identity *out, struct vgpu_error *err);

/* The same of a PF in sysfs, by what stands behind "sysfs:" or "vfio:" in a device's name. 0 or
 * -errno with the reason. */
int vfio_recognise_pf(const char *name, struct gpuiov_identity *out, struct vgpu_error *err);

#endif
