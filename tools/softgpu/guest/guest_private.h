/* SPDX-License-Identifier: MIT */
/* What the files of the guest's side share: guest.c, and share.c for a VF that several processes
 * have. */
#ifndef GUEST_PRIVATE_H
#define GUEST_PRIVATE_H

#include "guest.h"
#include "vfio/device.h"

#define RING_PACKETS 1024u
#define RING_AT 0u
#define FENCE_AT (RING_PACKETS * 64u)
#define FREE_AT (1u << 20)

/* A VF that several processes have. What they know of each other is in the window. */
struct shared_page;
struct share {
	bool on;	   /* the VF was opened as shared */
	uint64_t part;	   /* bytes of the window that a slot has */
	uint32_t n_pieces; /* of device memory */
	uint64_t piece;	   /* bytes of one */
	uint32_t slots;	   /* 0: its host has none, and this process alone has the VF */
	uint32_t own;	   /* this process's slot */
	bool open;	   /* the slot is; before that, its error is of another process */
	uint64_t asked;	   /* the last number that a slot was given */
	uint64_t epoch;	   /* changes when the VF is brought up anew */
	struct shared_page *page;
};

/* Offsets of the mailbox's registers in BAR 5. */
struct mailbox {
	uint32_t trn, rcv, control, enable;
};

struct guest {
	struct vfio_device *device;
	int vectors[SOFTGPU_VF_VECTORS];
	bool polled; /* there are no interrupts, and opening the VF has not reset it */
	struct mailbox mailbox;
	uint8_t *memory;
	size_t size;
	uint64_t partition; /* bytes; the first SIZE of them are mapped */
	uint32_t features;
	uint8_t *ring;
	uint64_t *reached; /* the value of the last fence */
	uint64_t wptr, fence;
	bool up;
	struct share share;
};

/* guest.c */
/* Brings the VF up for one process, with its ring empty. Errors as guest_bring_up(). */
int guest_start(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
/* Maps the window and reads what the VF has. 0 or -errno. */
int guest_look(struct guest *g);
/* Ends the VF's driver. Errors as guest_bring_down(). */
int guest_stop(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
/* 0 if the VF is working; -ECONNRESET: it is being reset or was reset; -EIO: it has stopped with an
 * error; -ENODEV: the device is gone. */
int guest_check(struct guest *g);

/* share.c: the parts of bringing up and down that a shared VF needs. Errors as of guest.h. */
int share_bring_up(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
int share_bring_down(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
/* Whether the VF is still the one that this process has joined. */
bool share_is_valid(const struct guest *g);
/* guest_memory(), of this process's slot. */
void *share_memory(struct guest *g, uint64_t *offset, uint64_t *size);
/* The error that this process's slot has stopped with. */
enum softgpu_error share_error(const struct guest *g);
/* Tells the host of packets. 0 or -errno. */
int share_ring(struct guest *g);

#endif
