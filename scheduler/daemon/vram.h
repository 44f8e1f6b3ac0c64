/* SPDX-License-Identifier: MIT */
/*
 * The memory of an engine's GPU: who has what, what is cleared, and changes of it while the GPU
 * works. Clearing and copying is the GPU's work, in pieces of about a millisecond, and looked at
 * here and there before it is believed. vram.c does the pieces, vram_change.c what they are for,
 * and vram_swap.c decides whose memory goes to the host's where it is not enough for all.
 *
 * The GPU's own table says who has what; ours is made from it at each start, and what is nobody's
 * is then cleared again. So whenever we are killed, every partition is the old one or the new one,
 * and nothing that was not cleared is given out. Engine thread.
 */
#ifndef DAEMON_VRAM_H
#define DAEMON_VRAM_H

#include "vgpu/core.h"
#include "vgpu/driver.h"
#include "vgpu/residency.h"

#define VRAM_EXTENTS (6 * VGPU_GPU_MAX_VFS)
/* How often a piece is done until it is as it should be: a guest that has mapped its memory, and
 * has not yet seen its reset, may write while it is being cleared. */
#define VRAM_TRIES 4u
/* The owner of what is the PF's. */
#define VRAM_PF VGPU_GPU_MAX_VFS

/* What is asked for. */
enum vram_what {
	VRAM_SET = 0, /* the VF's partition gets another size; 0: the VF has none */
	VRAM_PLAN,    /* what that would take */
	VRAM_COMPACT, /* what is free becomes one piece, as far as that is possible */
};

/* What a change takes. */
struct vram_plan {
	uint64_t offset;  /* where the partition will be */
	uint64_t clear;	  /* bytes that have to be cleared first */
	uint64_t move;	  /* bytes that have to be moved */
	uint32_t movers;  /* bitmap of VFs */
	uint64_t largest; /* of a change that is impossible: the most that there could be */
};

/* A size: what the VF has without a VM, by the configuration or by what was last set. */
#define VRAM_USUAL UINT64_MAX

/* Sent to the engine, and back with PLAN, and RESULT 0 or -errno and WHY. */
struct vram_request {
	enum vram_what what;
	uint32_t vf;
	uint64_t size;
	bool force; /* a VF that is in use is reset */
	bool usual; /* from now on this is its usual size */
	struct vram_plan plan;
};

/* Bytes, but for moves. */
struct vram_counters {
	uint64_t cleared, moved, moves, aborted_moves, failed_pieces;
	vgpu_nsec waited; /* by changes, for clearing and moving */
	/* out, and in again: swaps of VFs that have guests */
	uint64_t swaps[2], swapped[2], aborted_swaps;
	vgpu_nsec swap_time[2]; /* that one takes, a moving mean */
	uint64_t swap_rate[2];	/* bytes a second, as last measured; 0: not yet */
};

enum vram_piece_kind {
	VRAM_NOTHING = 0,
	VRAM_SETTLE,	 /* what a predecessor has begun comes to its end */
	VRAM_CLEAR_VF,	 /* of a VF that has been reset */
	VRAM_CLEAR_FREE, /* what is nobody's */
	VRAM_COPY,
	VRAM_PROBE, /* clear memory is copied to clear host memory, and back, to see how fast */
};

struct vram_piece {
	enum vram_piece_kind kind;
	struct vgpu_extent where;
	uint64_t from; /* of a copy */
	uint32_t vf;   /* whose memory it clears */
	bool stale;    /* it is to be done again whatever comes of it */
	vgpu_nsec began, look_at;
};

/* The clearing of a VF's memory: its partition, and behind that the slot of its context. */
struct vram_scrub {
	uint64_t at;   /* the next piece begins there */
	uint64_t left; /* bytes until all of it is clear: from AT on, and round to it again */
	uint32_t tries;
	bool wanted;	     /* the core waits for it */
	bool again;	     /* it was reset once more before it was clear */
	bool spare;	     /* it has used up its resets: it is cleared when nobody else waits */
	vgpu_nsec resets_at; /* token bucket of its resets, as the instant at which it is full */
};

/* A partition on its way. */
struct vram_move {
	bool active, asked, away_asked;
	uint32_t vf;
	uint64_t from, to, size, done;
	uint32_t tries;		   /* of the piece at hand */
	enum vgpu_context expects; /* SAVED; or NONE, and nothing is copied */
	vgpu_nsec began;
	vgpu_nsec until; /* by then the VF must have left the engine */
};

/* Who takes turns at the engine that clears and copies: each VF that is being cleared, and these.
 */
enum vram_turn {
	VRAM_TURN_MOVE = VGPU_GPU_MAX_VFS,
	VRAM_TURN_FREE,
	VRAM_TURNS,
};

struct engine_request;

struct vram {
	const struct vgpu_driver_ops *ops;
	struct vgpu_driver *driver;
	const struct vgpu_core *core;
	vgpu_event_sink *sink; /* to the core */
	void (*reply)(void *data, struct engine_request *request);
	void *data;

	uint32_t n_vfs;
	enum vgpu_placement placement;
	struct vgpu_partition partition;
	uint64_t usual[VGPU_GPU_MAX_VFS];
	struct vgpu_memory table;
	struct vgpu_memory_extent extents[VRAM_EXTENTS];

	struct vram_piece piece;
	uint64_t step; /* bytes of the next piece */
	struct vram_scrub scrubs[VGPU_GPU_MAX_VFS];
	uint32_t turn;	     /* who had the last piece: a VF, or one of enum vram_turn */
	uint32_t free_tries; /* of the piece at hand of what is nobody's */
	vgpu_nsec background_at, retry_at; /* for what is nobody's */

	uint64_t host;		    /* bytes of host memory; 0: nobody is swapped */
	uint32_t pinned, swappable; /* by the configuration; else by their guarantees */
	struct vgpu_residency residency;
	vgpu_nsec swap_at;    /* no swap before that */
	vgpu_nsec observe_at; /* no look at who wants in before that */
	bool swap_waits;      /* for what is being cleared */

	/* When to look at everything again: at once, if the core has been told something, for what
	 * it makes of that is not told here. */
	vgpu_nsec look_at_all;
	struct engine_request *request; /* the change under way */
	struct vram_move move;
	bool reset_asked;
	uint32_t attempts;
	vgpu_nsec since, until;
	struct vram_counters counters;
};

/* The table of a GPU that has just been opened, and whose VFs the core does not know yet. SINK,
 * REPLY and DATA are set, and what is configured of swapping: SWAPPABLE, and residency.epoch. The
 * core, when it knows the VFs, is to be told by VGPU_EV_AWAY which of them are not here. */
void vram_open(struct vram *v, const struct vgpu_driver_ops *ops, struct vgpu_driver *driver,
	       const struct vgpu_driver_caps *caps, const struct vgpu_driver_found *found,
	       const struct vgpu_driver_config *config);
/* The GPU is no longer there; a change under way is answered. */
void vram_close(struct vram *v);

/* The core wants a VF's memory cleared: exactly one VGPU_EV_SCRUBBED follows. Who is asked for
 * again goes on from where he is, once round. */
void vram_scrub(struct vram *v, uint32_t vf, vgpu_nsec now);
/* Begins a change: it is answered now or later. One at a time; -EBUSY for a second. */
void vram_begin(struct vram *v, struct engine_request *request, vgpu_nsec now);
/* Goes on with what is to be done. Negative: the GPU is gone. */
int vram_run(struct vram *v, vgpu_nsec now);
/* When vram_run is due. */
vgpu_nsec vram_deadline(const struct vram *v);

/* Whether the memory of a VF in that state can be moved: it has no guest, or one that can be kept
 * waiting. */
static inline bool vram_can_move(enum vgpu_vf_state state)
{
	return state == VGPU_VF_AVAIL || state == VGPU_VF_ACTIVE;
}

/* Tells the core. */
void vram_tell(struct vram *v, enum vgpu_event_type type, uint32_t vf, uint32_t code,
	       vgpu_nsec now);

static inline struct vgpu_vf_view vram_vf(const struct vram *v, uint32_t vf)
{
	struct vgpu_vf_view view;

	vgpu_core_vf_view(v->core, vf, &view);
	return view;
}

/* Whether a VF's memory is on the GPU, and not swapped out. */
static inline bool vram_is_here(const struct vram *v, uint32_t vf)
{
	return v->partition.vfs[vf].offset < v->table.local;
}

/* vram_change.c */
void vram_advance(struct vram *v, vgpu_nsec now);

/* vram_move.c */
/* Begins to move what lies at FROM. False: TO is not clear yet. */
bool vram_begin_move(struct vram *v, uint64_t from, uint64_t to, vgpu_nsec now);
void vram_advance_move(struct vram *v, vgpu_nsec now);
/* Whether a piece of the move is to be copied. */
bool vram_may_copy(const struct vram *v);
void vram_copied(struct vram *v, const struct vram_piece *piece, bool good, vgpu_nsec now);

/* vram_swap.c */
void vram_swap(struct vram *v, vgpu_nsec now);
/* Whether a VF is never swapped out: nobody is, or it is configured so, or its policy guarantees it
 * time. */
bool vram_is_pinned(const struct vram *v, uint32_t vf);
/* Whether a VF may be swapped out as it is now. */
bool vram_can_leave(const struct vram *v, uint32_t vf);
/* The most that a VF may have so that all that are pinned, and the largest of the others, have room
 * on the GPU together. */
uint64_t vram_most(const struct vram *v, uint32_t vf);
/* A place in host memory for a VF of SIZE; false: there is none, but at most LARGEST. */
bool vram_find_home(const struct vram *v, uint32_t vf, uint64_t size, struct vgpu_extent *home,
		    uint64_t *largest);
void vram_find_homes(struct vram *v);

#endif
