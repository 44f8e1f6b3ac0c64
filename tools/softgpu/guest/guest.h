/* SPDX-License-Identifier: MIT */
/*
 * The guest's side of a softgpu VF: what a driver in a VM would do, as a library. It brings the VF
 * up through the mailbox, fills its ring, and waits for fences. One thread.
 *
 * A VF can be taken away: -ECONNRESET says that it was reset, and everything on it is lost;
 * guest_bring_up() starts over.
 */
#ifndef GUEST_H
#define GUEST_H

#include "vfio/gpuiov.h"
#include "vgpu/types.h"

struct guest;

/* Connects to the VF at NAME ("vfio-user:PATH"). 0 or -errno with the reason. */
int guest_open(struct guest **out, const char *name, struct vgpu_error *err);
/* Leaves; unless guest_bring_down() came first, the VF is reset. NULL is allowed. */
void guest_close(struct guest *g);

/* The driver's start: asks for the engine, sets the ring up, gives the engine back. -EACCES:
 * refused; -ETIMEDOUT: no answer within TIMEOUT. */
int guest_bring_up(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
/* The driver's end, in the same way. */
int guest_bring_down(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);

/* The VF's memory that is free to use: OFFSET is what packets call its first byte. */
void *guest_memory(struct guest *g, uint64_t *offset, uint64_t *size);

/* The memory behind it, which packets alone reach; *SIZE is 0 where there is none. */
void guest_device_memory(struct guest *g, uint64_t *offset, uint64_t *size);
/* Whether the VF takes kernels of the guest's own. */
bool guest_has_modules(struct guest *g);

/* Memory of our own that DMA packets may reach at IOVA. */
int guest_map_dma(struct guest *g, int fd, uint64_t iova, uint64_t size);

/* Puts a packet into the ring, which holds 1024: the caller waits for fences often enough. Nothing
 * happens until guest_ring(). */
void guest_put(struct guest *g, const struct softgpu_packet *packet);
/* Puts a fence, to be waited for by the value that is returned. */
uint64_t guest_put_fence(struct guest *g);
int guest_ring(struct guest *g);

/* Waits until the fence has been reached. 0; -ETIMEDOUT; -ECONNRESET; -EIO: the VF has stopped with
 * an error, see guest_error(); of one that faulted the reset is waited for. */
int guest_wait(struct guest *g, uint64_t fence, vgpu_nsec timeout);
/* Whether it has been reached. */
bool guest_reached(struct guest *g, uint64_t fence);
enum softgpu_error guest_error(struct guest *g);

#endif
