/* SPDX-License-Identifier: MIT */
/*
 * Host memory that a device copies to and from: locked, so that it is never written to a disk,
 * on the device's NUMA node, of huge pages if wanted, and mapped for the device's DMA. What lies
 * there outlives this process, if there is a store (vfio/store.h).
 */
#ifndef VFIO_HOST_MEMORY_H
#define VFIO_HOST_MEMORY_H

#include "vfio/device.h"

/* Where the device sees it. Above what 32 bits reach, and so above where interrupts are written
 * to; within what the narrowest IOMMUs do, 39 bits. */
#define VFIO_HOST_MEMORY_IOVA (UINT64_C(1) << 32)

struct vfio_host_memory {
	uint64_t size;
	void *memory; /* NULL: none */
	bool kept;    /* an earlier process of ours wrote there; else it is all zeros */
};

struct vfio_host_memory_config {
	uint64_t size; /* bytes, a multiple of 2 MiB */
	bool huge_pages;
	int node; /* NUMA; -1: the device's, if that is known */
};

/*
 * Takes up what DEVICE, whose name for vfio_device_open is NAME, had before, or makes it new.
 * Blocks for as long as it takes to get all of it. 0 or -errno with the reason; -EBUSY: what is
 * kept is not of that size; -ENOTSUP: the transport has no DMA.
 */
int vfio_host_memory_open(struct vfio_host_memory *out, struct vfio_device *device,
			  const char *name, const struct vfio_host_memory_config *config,
			  struct vgpu_error *err);
/* Lets go of it; what is kept is kept. */
void vfio_host_memory_close(struct vfio_host_memory *m);
/* Nothing of that device is kept any longer. */
void vfio_host_memory_forget(const char *name);

#endif
