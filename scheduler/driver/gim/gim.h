/* SPDX-License-Identifier: MIT */
/*
 * The driver for AMD GPUs whose PF is bound to AMD's driver GIM, and whose VFs have turns (Radeon
 * PRO V710). GIM creates the VFs when it is loaded; vgpud sets the length of each VF's turns,
 * through debugfs (vfio/gim_admin.h). There are no preemption time-outs, and no counter of a VF's
 * use: GIM's perf_log adds up turns, and does not publish how much of them a VF used.
 */
#pragma once

#include "../settings/settings.h"
#include "vfio/gim_admin.h"

/* The calls that the writer uses. */
extern const struct settings_ops gim_settings;

/* Reads the slices of all VFs. Returns 0 or -errno. */
int gim_read_program(const char *pf, uint32_t n_vfs, struct vgpu_program *out);

/* The operations of the driver's table, as vgpu/driver.h describes them. */
int gim_probe(const char *device, struct vgpu_error *err);
int gim_check(const struct vgpu_driver_config *config, struct vgpu_driver_caps *caps,
	      struct vgpu_error *err);
int gim_open(struct vgpu_driver **out, const struct vgpu_driver_config *config,
	     struct vgpu_driver_caps *caps, struct vgpu_driver_found *found, vgpu_event_sink *sink,
	     void *data, struct vgpu_error *err);
void gim_close(struct vgpu_driver *d, bool lost);
