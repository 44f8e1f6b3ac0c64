/* SPDX-License-Identifier: MIT */
/*
 * Host memory that a device copies to and from: locked, so that it is never written to a disk; on
 * the device's NUMA node; optionally in huge pages; mapped for the device's DMA. Its contents
 * outlive this process if there is a store (vfio/store.h).
 */
#pragma once

#include "vfio/device.h"

/* The memory's address for the device: above 4 GiB, below which interrupts are written, and within
 * the 39 bits of the narrowest IOMMUs. */
#define VFIO_HOST_MEMORY_IOVA (UINT64_C(1) << 32)

struct vfio_host_memory {
	uint64_t size;
	void *memory; /* NULL: no memory */
	bool kept;    /* the contents are those of an earlier process; false: all zeros */
};

struct vfio_host_memory_config {
	uint64_t size; /* bytes, a multiple of 2 MiB */
	bool huge_pages;
	int node; /* NUMA node; -1: the device's, if known */
};

/*
 * Takes the memory that the store has for DEVICE (NAME: as for vfio_device_open()), or allocates
 * it. Blocks until all pages are allocated. Returns 0, or -errno with the reason in ERR; -EBUSY:
 * the stored memory has another size; -ENOTSUP: the transport has no DMA.
 */
int vfio_host_memory_open(struct vfio_host_memory *out, struct vfio_device *device,
			  const char *name, const struct vfio_host_memory_config *config,
			  struct vgpu_error *err);
/* Unmaps the memory; the store's copy remains. */
void vfio_host_memory_close(struct vfio_host_memory *m);
/* Removes the memory of the device NAME from the store. */
void vfio_host_memory_forget(const char *name);
