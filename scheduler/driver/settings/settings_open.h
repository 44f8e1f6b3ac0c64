/* SPDX-License-Identifier: MIT */
/* The checks that opening a GPU with a host driver begins with. */
#pragma once

#include "vfio/pci.h"
#include "vgpu/driver.h"

/* Refuses settings that no such GPU supports: too many VFs, layouts, host memory, partitions on
 * demand. Returns 0, or -EINVAL with the reason. */
int settings_check_config(const struct pci_info *pf, const struct vgpu_driver_config *config,
			  struct vgpu_error *err);
/* Refuses a GPU with a VF that has a driver of the host: programs of the host may use it. Returns
 * 0, or -EBUSY with the reason. */
int settings_check_vfs(const struct pci_info *pf, struct vgpu_error *err);
/* Locks the PF's configuration space: *FD, the caller's, holds the lock;
 * below 0: it was not opened. Returns 0, or -errno with the reason; -EBUSY: another program holds
 * it. */
int settings_lock(int *fd, const char *pf, struct vgpu_error *err);
