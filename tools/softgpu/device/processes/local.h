/* SPDX-License-Identifier: MIT */
/*
 * The client of a VF process if the carrier itself is the client of all VFs, as in QEMU. The
 * carrier's accesses go to the process through a connection; the process's interrupts and DMA go to
 * the carrier. Each VF has a thread for this, so that no VF waits for another VF's process. Call
 * these functions without the device's lock.
 */
#pragma once

#include "softgpu.h"

struct local;

/* Starts the thread of VF. Returns 0 or a positive errno. */
int local_create(struct local **out, struct softgpu *gpu, int vf);
/* L may be NULL. */
void local_destroy(struct local *l);

/* Returns a new listening socket for the VF's process, to which the thread will connect, and which
 * is the caller's; or -errno with the reason. */
int local_listen(struct local *l, struct vgpu_error *err);
/* Makes a new socket for DMA. Returns the end for the VF's process, which is the caller's; -1: no
 * descriptors. */
int local_dma_fd(struct local *l);

/* The carrier's accesses. If the process does not answer, a read returns ones. */
void local_read(struct local *l, uint32_t region, uint64_t offset, void *data, uint32_t size);
void local_write(struct local *l, uint32_t region, uint64_t offset, const void *data,
		 uint32_t size);
