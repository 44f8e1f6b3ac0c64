/* SPDX-License-Identifier: MIT */
/* Transports, through which functions are accessed. Each has a prefix of device names, and opens
 * the device that the rest of a name describes. */
#pragma once

#include "vfio/device.h"
#include "vfio/pci.h"
#include "vfio/recognise.h"

/* vfio-user:PATH */
int vfio_user_open(struct vfio_device **out, const char *name, struct vgpu_error *err);
/* lease:PATH */
int vfio_lease_open(struct vfio_device **out, const char *name, struct vgpu_error *err);
/* sysfs:ADDRESS */
int sysfs_device_open(struct vfio_device **out, const char *name, struct vgpu_error *err);
/* resource:ADDRESS */
int sysfs_vf_open(struct vfio_device **out, const char *name, struct vgpu_error *err);
/* registers:ADDRESS */
int sysfs_vf_look(struct vfio_device **out, const char *name, struct vgpu_error *err);
/* shared:ADDRESS */
int sysfs_vf_share(struct vfio_device **out, const char *name, struct vgpu_error *err);
/* vfio:ADDRESS[,token=UUID][,token-file=PATH] */
int vfio_pci_open(struct vfio_device **out, const char *name, struct vgpu_error *err);

/* Writes, then reads, for transports that need two messages. */
int transport_write_read(struct vfio_device *d, uint32_t region, uint64_t write_offset,
			 const void *data, uint32_t size, uint64_t read_offset, void *out,
			 uint32_t out_size);

/* Lets the kernel make N VFs of the PF at ADDRESS, and then enables them in registers that a reset
 * has cleared. Returns 0, or -errno with the reason in ERR. */
int transport_kernel_vfs(struct vfio_device *d, const char *address, uint32_t n,
			 struct vgpu_error *err);

/* Checks whether a driver of vgpud supports a PF, before it is unbound from its driver. Changes
 * nothing. Returns 0; -ENODEV: no driver supports it; -EBUSY: its present driver schedules its VFs,
 * and keeps it; -EINVAL: it is a VF; -EACCES: only root can tell; with the reason in ERR. */
int transport_recognise(const struct pci_info *info, struct gpuiov_identity *out,
			struct vgpu_error *err);
