/* SPDX-License-Identifier: MIT */
/* What the files of the guest's side share: guest.c, and share.c for a VF that several processes
 * have. */
#pragma once

#include "guest.h"
#include "vfio/device.h"

#define RING_PACKETS 1024u
#define RING_AT 0u
#define FENCE_AT (RING_PACKETS * 64u)
#define FREE_AT (1u << 20)

/* A VF that several processes have. What they know of each other is in the window. */
struct shared_page;

#define EVENTS_MOST 1024u
/* An event that all of them may know. */
struct shared_event {
	_Atomic uint64_t owner; /* see events.c; 0: there is none */
	_Atomic uint64_t last;	/* 1 + the slot that has recorded it last; 0: none has */
	/* what each slot has recorded last: a fence, and the number by which it was opened */
	struct {
		_Atomic uint64_t asked, fence;
	} records[SOFTGPU_MAX_SLOTS];
};

#define PIECES_MOST (UINT32_C(1) << 17)
#define COMMON_MOST 8192u
/* Memory that some of them hold in common: see common.c. */
struct shared_common {
	_Atomic uint32_t holders; /* a bit for each slot */
	_Atomic uint32_t pieces;  /* how many; 0: there is no such memory */
};

struct share {
	bool on;	   /* packets go into a slot, if the host has slots */
	bool alone;	   /* no other process can have the VF */
	uint64_t part;	   /* bytes of the window that a slot has */
	uint32_t n_pieces; /* number of pieces of device memory */
	uint64_t piece;	   /* bytes of one */
	uint32_t slots;	   /* 0: its host has none, and this process alone has the VF */
	uint32_t own;	   /* this process's slot */
	bool open;	   /* the slot is; before that, its error is of another process */
	uint64_t asked;	   /* the last number that a slot was given */
	uint64_t opened;   /* the number of this process's slot */
	uint32_t n_events; /* 0: the process that has brought the VF up knows no events */
	struct shared_event *events;
	uint32_t n_common; /* 0: that process knows no common memory */
	struct shared_common *commons;
	_Atomic uint32_t *common_end; /* more than each number that was ever used */
	uint64_t epoch;		      /* changes when the VF is brought up anew */
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
	vgpu_nsec away_since; /* start of the time in which the VF reads as ones; 0: it does not */
	uint8_t *memory;
	size_t size;
	uint64_t partition; /* bytes; the first SIZE of them are mapped */
	uint32_t features;
	uint32_t faults; /* faults of the VF before this process */
	uint8_t *ring;
	uint64_t *reached; /* the value of the last fence */
	uint64_t wptr, fence;
	bool up;
	struct share share;
};

/* guest.c */
/* Brings the VF up for one process, with its ring empty. Errors as guest_bring_up(). */
int guest_start(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
/* Maps the window and reads what the VF has. Returns 0 or -errno. */
int guest_look(struct guest *g);
/* Ends the VF's driver. Errors as guest_bring_down(). */
int guest_stop(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);

/* share.c: the parts of bringing up and down that a shared VF needs. Errors as of guest.h. */
int share_bring_up(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
int share_bring_down(struct guest *g, vgpu_nsec timeout, struct vgpu_error *err);
/* Returns whether the VF is still the one that this process has joined. */
bool share_is_valid(const struct guest *g);
/* guest_memory(), of this process's slot. */
void *share_memory(struct guest *g, uint64_t *offset, uint64_t *size);
/* Returns the error that this process's slot has stopped with. */
enum softgpu_error share_error(const struct guest *g);
/* Returns a number that no slot of a living program has. */
uint64_t share_number(struct guest *g);
/* Returns the owners of the pieces of device memory, n_pieces words. */
_Atomic uint32_t *share_owners(const struct guest *g);
/* Takes lock 0, which guest_end_care() gives back, by DEADLINE. Returns 0; -EBUSY: another process
 * has it; or another -errno. */
int share_take_begin(struct guest *g, vgpu_nsec deadline);
/* common.c: SLOT holds nothing any more, because the host has closed it. */
void common_drop_all(struct guest *g, uint32_t slot);
/* events.c: ends all events of SLOT, whose process has ended or is about to. */
void events_end_all(struct guest *g, uint32_t slot);
/* guest.c: sleeps until REACHED(FENCE), and looks for news of the VF. Returns 0; -ETIMEDOUT; or as
 * guest_check(). */
int wait_by_naps(struct guest *g, bool (*reached)(struct guest *g, const void *fence),
		 const void *fence, vgpu_nsec deadline);
/* Tells the host that there are packets. Returns 0 or -errno. */
int share_ring(struct guest *g);
