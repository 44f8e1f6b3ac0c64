/* SPDX-License-Identifier: MIT */
/*
 * The guest's side of a softgpu VF: the work of a driver in a VM, as a library. It brings the VF up
 * through the mailbox, fills its ring, and waits for fences. Only one thread may use a guest.
 *
 * If a call returns -ECONNRESET, the VF was reset and everything on it is lost; guest_bring_up()
 * starts again.
 */
#ifndef GUEST_H
#define GUEST_H

#include "vfio/gpuiov.h"
#include "vgpu/types.h"

struct guest;

/* Connects to the VF at NAME ("vfio-user:PATH", or another name of vfio/device.h). 0 or -errno with
 * the reason. */
int guest_open(struct guest **out, const char *name, struct vgpu_error *err);
/* Disconnects. Unless guest_bring_down() came first, the VF is reset. G may be NULL. */
void guest_close(struct guest *g);

/* Starts the driver: requests the engine, sets the ring up, releases the engine. 0; -EACCES: the
 * host refuses; -ETIMEDOUT: no answer within TIMEOUT; or another -errno. */
int guest_bring_up(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
/* Ends the driver: requests the engine and releases it for good. Errors as above. */
int guest_bring_down(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);

/* The part of the window that the caller may use: its address, its size in bytes, and its offset in
 * the partition, as packets use it. */
void *guest_memory(struct guest *g, uint64_t *offset, uint64_t *size);

/* The memory behind the window, which only packets reach; *SIZE is 0 if there is none. */
void guest_device_memory(struct guest *g, uint64_t *offset, uint64_t *size);
/* Whether the VF's memory is nobody else's: the VF was reset when it was opened. Otherwise an
 * earlier program of this machine may have left something in it. */
bool guest_is_fresh(struct guest *g);
/* Whether the VF can load the guest's own GPU kernels. */
bool guest_has_modules(struct guest *g);
/* Whether it also takes the packets FUNCTION and ABOUT, and the flag REPORT. */
bool guest_has_reports(struct guest *g);
/* Whether it answers what is asked of modules: SYMBOL, OCCUPANCY, SYMBOL_COPY. */
bool guest_has_symbols(struct guest *g);

/* Lets DMA packets access SIZE bytes of the memory file FD at IOVA. 0 or -errno. */
int guest_map_dma(struct guest *g, int fd, uint64_t iova, uint64_t size);

/* Puts a packet into the ring. The ring holds 1024 packets: the caller must wait for fences so
 * often that it is never full. Packets run after guest_ring(). */
void guest_put(struct guest *g, const struct softgpu_packet *packet);
/* Puts a fence into the ring, and returns its value for guest_wait(). */
uint64_t guest_put_fence(struct guest *g);
/* Writes the doorbell: all packets in the ring may run. 0 or -errno. */
int guest_ring(struct guest *g);

/* Waits until the fence has been reached. 0; -ETIMEDOUT; -ECONNRESET; -EIO: the VF has stopped with
 * an error, see guest_error(); after a fault, waits for the reset instead. */
int guest_wait(struct guest *g, uint64_t fence, vgpu_nsec timeout);
/* Whether the fence has been reached. */
bool guest_reached(struct guest *g, uint64_t fence);
/* The error that the VF has stopped with; SOFTGPU_OK: none. */
enum softgpu_error guest_error(struct guest *g);

#endif
