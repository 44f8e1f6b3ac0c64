/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA GPUs with vGPUs under NVIDIA's licensed host driver, of the kind whose VFs keep the driver
 * nvidia (vGPU 17 and later, on kernels without mediated devices). A VF becomes a vGPU when it gets
 * a type: NVIDIA's documentation of vGPU software, "Creating an NVIDIA vGPU on Linux with a
 * vendor-specific VFIO framework". Types are lost when the host restarts. Calls may block. Any
 * thread, one at a time for each GPU.
 */
#pragma once

#include "vfio/pci.h"

#define NVIDIA_DRIVER "nvidia"

/* Describes the GPU with that address if its VFs can be vGPUs. Returns 0, or -errno with the reason
 * in ERR. Changes nothing. */
int nvidia_recognise(const char *address, struct pci_info *out, struct vgpu_error *err);

/* Reads the number of a VF's type; 0: it has none. Returns 0 or -errno. */
int nvidia_read_type(const char *pf, uint32_t vf, uint32_t *type);
/* Sets a VF's type; 0 removes it. Returns 0, or -errno; -EIO also if another type is read back. */
int nvidia_write_type(const char *pf, uint32_t vf, uint32_t type);
/* Returns whether a VF without a type can get this TYPE now. If not, OUT, of SIZE bytes, lists the
 * possible types: "1428 (NVIDIA H200X-141C)". */
bool nvidia_can_have(const char *pf, uint32_t vf, uint32_t type, char *out, size_t size);

/* Finds the UUID of the VM that has a VF open: from libvirt's files about the process
 * (/run/libvirt/qemu); for a process of root also from its arguments; other users' processes could
 * have changed theirs. Searches /proc. Returns whether the VM is known. */
bool nvidia_vm_of(const char *pf, uint32_t vf, char *uuid, size_t size);
