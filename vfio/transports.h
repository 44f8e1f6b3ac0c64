/* SPDX-License-Identifier: MIT */
/* What carries a function: each has a prefix of device names, and opens what stands behind it. */
#ifndef VFIO_TRANSPORTS_H
#define VFIO_TRANSPORTS_H

#include "vfio/device.h"
#include "vfio/pci.h"
#include "vfio/recognise.h"

/* vfio-user:PATH */
int vfio_user_open(struct vfio_device **out, const char *name, struct vgpu_error *err);
/* sysfs:ADDRESS */
int sysfs_device_open(struct vfio_device **out, const char *name, struct vgpu_error *err);
/* vfio:ADDRESS[,token=UUID][,token-file=PATH] */
int vfio_pci_open(struct vfio_device **out, const char *name, struct vgpu_error *err);

/* A write and then a read, where that takes two trips. */
int transport_write_read(struct vfio_device *d, uint32_t region, uint64_t write_offset,
			 const void *data, uint32_t size, uint64_t read_offset, void *out,
			 uint32_t out_size);

/* The kernel's VFs of the PF at ADDRESS, and then the registers, if they have been reset. */
int transport_kernel_vfs(struct vfio_device *d, const char *address, uint32_t n,
			 struct vgpu_error *err);

/* Before a PF is taken from its driver: whether one of ours knows it. 0; -ENODEV (-EINVAL: it is a
 * VF, -EACCES: it cannot be told without root) with the reason. Looks, and touches nothing. */
int transport_recognise(const struct pci_info *info, struct gpuiov_identity *out,
			struct vgpu_error *err);

#endif
