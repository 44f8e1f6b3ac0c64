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

/* Connects to the VF at NAME ("vfio-user:PATH", or another name of vfio/device.h). With
 * "shared:ADDRESS", other processes of this machine may have the VF, too: each has a slot of it,
 * and part of its window. 0 or -errno with the reason. */
int guest_open(struct guest **out, const char *name, struct vgpu_error *err);
/* Disconnects. Unless guest_bring_down() came first, the VF is reset. G may be NULL. */
void guest_close(struct guest *g);

/* Starts the driver: requests the engine, sets the ring up, releases the engine. 0; -EACCES: the
 * host refuses; -ETIMEDOUT: no answer within TIMEOUT; -EBUSY: all slots are in use; or another
 * -errno. */
int guest_bring_up(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
/* Ends the driver: requests the engine and releases it for good. Of a shared VF, the last process
 * does that; the others give their slot back. Errors as above. */
int guest_bring_down(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);

/* The part of the window that the caller may use: its address, its size in bytes, and its offset in
 * the partition, as packets use it. */
void *guest_memory(struct guest *g, uint64_t *offset, uint64_t *size);

/* The memory behind the window, which only packets reach; *SIZE is 0 if there is none, or if
 * processes share it: see guest_pieces(). */
void guest_device_memory(struct guest *g, uint64_t *offset, uint64_t *size);
/* Whether the VF's memory has nothing of earlier programs of this machine: the VF was reset when it
 * was opened, or it is shared. */
bool guest_is_fresh(struct guest *g);
/* Whether the VF can load the guest's own GPU kernels. */
bool guest_has_modules(struct guest *g);
/* Whether it also takes the packets FUNCTION and ABOUT, and the flag REPORT. */
bool guest_has_reports(struct guest *g);
/* Whether it answers what is asked of modules: SYMBOL, OCCUPANCY, SYMBOL_COPY. */
bool guest_has_symbols(struct guest *g);

/* What processes that share a VF know of each other. Below, a slot is the number of one. */

/* How many processes may have the VF at a time; 0: only this one. And this process's slot. */
uint32_t guest_slots(struct guest *g);
uint32_t guest_slot(struct guest *g);
/* Whose the device memory is: *N words, for *BYTES of it each, in the order of their addresses.
 * 0: nobody's, and clear; else 1 + the slot that has it, or with GUEST_PIECE_FREE, that had it
 * last. They are changed by atomic exchange. All of it begins as 0. */
#define GUEST_PIECE_FREE 0x100u
_Atomic uint32_t *guest_pieces(struct guest *g, uint32_t *n, uint64_t *bytes);
/* Begins to look after slots whose processes have ended; false: another process does so, or starts
 * or ends just now. */
bool guest_begin_care(struct guest *g);
void guest_end_care(struct guest *g);
/* Between these: takes a slot whose process has ended without giving it back, and lets the host
 * forget what ran there. False: the process lives, or has left nothing, or it still runs after
 * TIMEOUT. Until guest_let_go(), no other process gets the slot; CLEAN: nothing is left of it. */
bool guest_take_over(struct guest *g, uint32_t slot, vgpu_nsec timeout);
void guest_let_go(struct guest *g, uint32_t slot, bool clean);

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
