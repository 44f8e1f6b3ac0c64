/* SPDX-License-Identifier: MIT */
/* Recognises the GPU of a PF before anything is changed. Any thread; does not block. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vgpu/types.h"

/* A PF that the GPU-IOV driver knows, with the offsets of its capabilities. */
struct gpuiov_identity {
	const char *model; /* static */
	uint16_t sriov, cap;
	uint32_t cap_length; /* length of the GPU-IOV capability, bytes */
};

#define GPUIOV_CONFIG_SIZE 4096u

/*
 * Recognises a PF by vendor, device id, SR-IOV and GPU-IOV capability, from the first SIZE bytes of
 * its configuration space, which could be read. Must be called before a function is unbound from
 * its driver. Returns 0, or -ENODEV (-EACCES: only the header could be read) with the reason in
 * ERR.
 */
int gpuiov_recognise(const uint8_t config[GPUIOV_CONFIG_SIZE], size_t size,
		     struct gpuiov_identity *out, struct vgpu_error *err);

/* Recognises a PF in sysfs. NAME: the part after "sysfs:" or "vfio:" of a device's name. Returns 0,
 * or -errno with the reason in ERR. */
int vfio_recognise_pf(const char *name, struct gpuiov_identity *out, struct vgpu_error *err);
