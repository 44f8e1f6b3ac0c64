/* SPDX-License-Identifier: MIT */
/*
 * The client of a VF process where the carrier is one, as in QEMU: accesses of the carrier go
 * through a connection, the process's interrupts and DMA come back to the carrier. Each VF has a
 * thread of its own, which alone waits for its process. Not under the device's lock.
 */
#ifndef SOFTGPU_LOCAL_H
#define SOFTGPU_LOCAL_H

#include "softgpu.h"

struct local;

/* 0 or a positive errno. NULL may be destroyed. */
int local_create(struct local **out, struct softgpu *gpu, int vf);
void local_destroy(struct local *l);

/* A listening socket for the VF's process, which its client will connect to. */
int local_listen(struct local *l, struct vgpu_error *err);
/* The process's end of the socket that DMA goes through; the caller's. */
int local_dma_fd(struct local *l);

/* Accesses by the carrier; one that nobody answers reads as ones. */
void local_read(struct local *l, uint32_t region, uint64_t offset, void *data, uint32_t size);
void local_write(struct local *l, uint32_t region, uint64_t offset, const void *data,
		 uint32_t size);

#endif
