/* SPDX-License-Identifier: MIT */
/*
 * The guest's side of a softgpu VF: the work of a driver in a VM, as a library. It brings the VF up
 * through the mailbox, fills its ring, and waits for fences. Only one thread may use a guest.
 *
 * If a call returns -ECONNRESET, the VF was reset and everything on it is lost; guest_bring_up()
 * starts again.
 */
#pragma once

#include "softgpu/registers.h"
#include "softgpu/packets.h"
#include "vfio/gpuiov.h"
#include "vgpu/types.h"

struct guest;

/* Connects to the VF at NAME ("vfio-user:PATH", or another name of vfio/device.h). With
 * "shared:ADDRESS", other processes of this machine may have the VF, too: each has a slot of it,
 * and part of its window. Returns 0 or -errno with the reason. */
int guest_open(struct guest **out, const char *name, struct vgpu_error *err);
/* To be called after guest_open(): if the host has slots, packets go into one, though no other
 * process can have the VF. While the host executes, packets of a slot need no doorbell. In a slot,
 * SLOTS and ENDLESS are wrong. A VF that was opened as shared does so anyway. */
void guest_use_slot(struct guest *g);
/* Disconnects. Unless guest_bring_down() came first, the VF is reset. G may be NULL. */
void guest_close(struct guest *g);

/* Starts the driver: requests the engine, sets the ring up, releases the engine. Returns 0;
 * -EACCES: the host refuses; -ETIMEDOUT: no answer within TIMEOUT; -EBUSY: all slots are in use; or
 * another -errno. */
int guest_bring_up(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
/* Ends the driver: requests the engine and releases it for good. Of a shared VF, the last process
 * does that; the others give their slot back. Errors as above. */
int guest_bring_down(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);

/* Returns the part of the window that the caller may use: its address, its size in bytes, and its
 * offset in the partition, as packets use it. */
void *guest_memory(struct guest *g, uint64_t *offset, uint64_t *size);

/* Gets the memory behind the window, which only packets can access; *SIZE is 0 if there is none, or
 * if processes share it: see guest_pieces(). */
void guest_device_memory(struct guest *g, uint64_t *offset, uint64_t *size);
/* Returns whether the VF's memory has nothing of earlier programs of this machine: the VF was reset
 * when it was opened, or it is shared. */
bool guest_is_fresh(struct guest *g);
/* Returns whether the VF can load the guest's own GPU kernels; or could, with structures of packets
 * that are not known any more. */
bool guest_has_modules(struct guest *g);
bool guest_has_old_modules(struct guest *g);
/* Returns whether the host links images, and compiles one alone. */
bool guest_has_images(struct guest *g);
/* Returns whether a ring has more than SOFTGPU_HAD_MAX_MODULES modules. */
bool guest_has_many_modules(struct guest *g);
/* Returns whether the host accepts the packet OUTPUT. */
bool guest_has_output(struct guest *g);
/* Returns whether the host accepts the packets ARENA, MAP and UNMAP; ARENA may say that there is
 * none. */
bool guest_has_arena(struct guest *g);
/* Returns whether the host accepts the packet AWAIT, and processes of the VF can have events
 * together. */
bool guest_has_events(struct guest *g);

/* What processes that share a VF know of each other. Below, a slot is the number of one. */

/* The least window, in bytes, that two processes can share. */
#define GUEST_WINDOW_OF_TWO (UINT64_C(9) << 20)
/* guest_slots returns how many processes may have the VF at a time (0: only this one), guest_slot
 * this process's slot. */
uint32_t guest_slots(struct guest *g);
uint32_t guest_slot(struct guest *g);
/* Returns whose the device memory is: *N words, for *BYTES of it each, in the order of their
 * addresses. A word is 0: free and clear; else 1 + the slot that has it, or, with GUEST_PIECE_FREE,
 * the slot that had it last, if one slot had it alone; or as guest_is_common() says. The words are
 * changed by atomic exchange, and begin as 0. */
#define GUEST_PIECE_FREE 0x100u
_Atomic uint32_t *guest_pieces(struct guest *g, uint32_t *n, uint64_t *bytes);
/* Begins to look after slots whose processes have ended. Returns false if another process does so,
 * or is starting or ending. */
bool guest_begin_care(struct guest *g);
void guest_end_care(struct guest *g);
/* Between guest_begin_care() and guest_end_care(): takes a slot whose process has ended without
 * giving it back, and lets the host forget what ran there. Returns false if the process lives, has
 * left nothing, or still runs after TIMEOUT. No other process gets the slot until guest_let_go();
 * CLEAN: nothing is left of it. */
bool guest_take_over(struct guest *g, uint32_t slot, vgpu_nsec timeout);
void guest_let_go(struct guest *g, uint32_t slot, bool clean);

/* A fence of a process of the VF: VALUE of the slot that was opened by ASKED, as AWAIT has it. */
struct guest_fence {
	uint32_t slot;
	uint64_t asked, value;
};
/* Returns whether the fence has been reached, or never will be, because its process or that
 * process's packets have ended. */
bool guest_fence_reached(struct guest *g, const struct guest_fence *fence);
/* Waits until guest_fence_reached(). Returns 0; or as guest_wait(). */
int guest_fence_wait(struct guest *g, const struct guest_fence *fence, vgpu_nsec timeout);

/* An event that processes of the VF share: its place, and a number that no other event has. A
 * process may make the two up: then there is no such event, or it is another one. */
struct guest_event {
	uint64_t number, owner;
};
/* Makes an event of this process that was not recorded. It ends with the process, however that
 * ends. Returns 0, or -ENOSPC: there are too many. */
int guest_event_make(struct guest *g, struct guest_event *out);
/* Ends the event, if it exists. */
void guest_event_end(struct guest *g, const struct guest_event *event);
/* guest_event_is returns whether there is such an event, guest_event_is_own whether it would be one
 * of this process. */
bool guest_event_is(struct guest *g, const struct guest_event *event);
bool guest_event_is_own(struct guest *g, const struct guest_event *event);
/* Makes the event stand for the fence VALUE of this process. */
void guest_event_record(struct guest *g, const struct guest_event *event, uint64_t value);
/* Writes the fence for which the event stands, of whichever process; its slot is less than
 * SOFTGPU_MAX_SLOTS. Returns false if the event was not recorded, or has ended. */
bool guest_event_last(struct guest *g, const struct guest_event *event, struct guest_fence *out);

/* Device memory that processes of the VF hold in common: some of its pieces in an order, with a
 * number. It is there while a process holds it, or a descriptor that shows it is open anywhere. */

/* Returns the most common memories that there can be; their numbers are less than that. 0: none. */
uint32_t guest_common_most(struct guest *g);
/* Makes N > 0 PIECES, all of them this process's, common memory, which this process holds. Nothing
 * may run that was put for an earlier use of them. Returns 0; -ENOSPC: there is too much of it;
 * -EBUSY: another process begins or ends, and does not finish; -ECONNRESET; or another -errno. */
int guest_common_make(struct guest *g, const uint32_t *pieces, uint32_t n, uint32_t *number);
/* Returns a new descriptor that shows memory which this process holds. It is the caller's, and
 * closed by exec. Or -errno. */
int guest_common_show(struct guest *g, uint32_t number);
/* Holds the memory that FD shows; that it does so already is no error. PIECES has room for all that
 * the VF has; *N is how many it was. FD stays the caller's. Returns 0; -EINVAL: FD shows no memory
 * of this VF; or as guest_common_make(). */
int guest_common_open(struct guest *g, int fd, uint32_t *number, uint32_t *pieces, uint32_t *n);
/* Gives up this process's hold of the memory. No work of it that still runs may use it. */
void guest_common_drop(struct guest *g, uint32_t number);
/* Between guest_begin_care() and guest_end_care(): frees common memory that no process holds and no
 * descriptor shows. Returns whether there was any. */
bool guest_common_collect(struct guest *g);
/* Returns whether the WORD of a piece says that it is of common memory, and there is such memory.
 */
bool guest_is_common(struct guest *g, uint32_t word);

/* Lets DMA packets access SIZE bytes of the memory file FD at IOVA. Returns 0 or -errno. */
int guest_map_dma(struct guest *g, int fd, uint64_t iova, uint64_t size);

/* Puts a packet into the ring. The ring holds 1024 packets: the caller must wait for fences so
 * often that it is never full. Packets run after guest_ring(). */
void guest_put(struct guest *g, const struct softgpu_packet *packet);
/* Puts a fence into the ring, and returns its value for guest_wait(). */
uint64_t guest_put_fence(struct guest *g);
/* Puts a mark into the ring, and returns its value for guest_wait_mark(). A mark that is reached
 * interrupts no guest. */
uint64_t guest_put_mark(struct guest *g);
/* Writes the doorbell: all packets in the ring may run. Returns 0 or -errno. */
int guest_ring(struct guest *g);

/* Shows all packets in the ring to a host that looks for packets by itself. Returns false if just
 * now it does not, and guest_ring() has to tell it of them. */
bool guest_show(struct guest *g);

/* Waits until the fence has been reached. Returns 0; -ETIMEDOUT; -ECONNRESET; -EIO: the VF has
 * stopped with an error, see guest_error(); after a fault, waits for the reset instead. */
int guest_wait(struct guest *g, uint64_t fence, vgpu_nsec timeout);
/* As guest_wait(), for a mark, which does not interrupt: sleeps and polls. */
int guest_wait_mark(struct guest *g, uint64_t mark, vgpu_nsec timeout);
/* Returns 0 if the VF is working; -ECONNRESET: it is being reset or was reset, or reads as ones;
 * -EIO: it has stopped with an error; -ENODEV: the device is gone. Never waits. */
int guest_check(struct guest *g);
/* Returns whether the fence has been reached. */
bool guest_reached(struct guest *g, uint64_t fence);
/* Returns the error that the VF has stopped with; SOFTGPU_OK: none. */
enum softgpu_error guest_error(struct guest *g);
/* Returns the VF's last fault since it was brought up, which its reset leaves: SOFTGPU_BAD_ADDRESS,
 * SOFTGPU_ASSERTED or SOFTGPU_FAULTED; SOFTGPU_OK: none that the host tells. */
enum softgpu_error guest_fault(struct guest *g);
/* Reads what the GPU's driver said of the last SOFTGPU_ASSERTED. */
void guest_words(struct guest *g, char words[SOFTGPU_WORDS]);
