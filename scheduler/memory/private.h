/* SPDX-License-Identifier: MIT */
/*
 * The inside of the memory reducer. Each file has one idea, and calls only what stands below it
 * here (tests/lint checks it):
 *
 *   step.c       turns events into calls
 *   resize.c     carries out changes
 *   swap.c       decides which VFs are swapped where the GPU's memory is too small for all
 *   residency.c  for how long
 *   pieces.c     clears and copies, piece by piece
 *   move.c       moves one partition
 *   homes.c      places in host memory
 *   plan.c       what a change would take
 *   partition.c  the partition of a GPU that is set up anew
 *   table.c      the table of extents
 *   table.h
 *   output.c     what a step says
 */
#ifndef MEMORY_PRIVATE_H
#define MEMORY_PRIVATE_H

#include "vgpu/memory_step.h"
#include "vgpu/residency.h"

/* How often a piece is done until it is as it should be: a guest that has mapped its memory, and
 * has not yet seen its reset, may write while it is being cleared. */
#define TRIES 4u

enum piece_kind {
	PIECE_NONE = 0,
	PIECE_SETTLE, /* what a predecessor has begun comes to its end */
	PIECE_SCRUB,  /* of a VF that has been reset */
	PIECE_FREE,   /* of what is nobody's */
	PIECE_COPY,
	PIECE_PROBE, /* clear memory is copied to clear host memory, and back, to see how fast */
};

struct piece {
	enum piece_kind kind;
	struct vgpu_extent where;
	uint64_t from; /* of a copy */
	uint32_t vf;   /* of a scrub */
	bool stale;    /* it is to be done again whatever comes of it */
	vgpu_nsec began;
};

/* The clearing of a VF's memory: its partition, and behind that the slot of its context. */
struct scrub {
	uint64_t at;   /* the next piece begins there */
	uint64_t left; /* bytes until all of it is clear: from AT on, and round to it again */
	uint32_t tries;
	bool wanted;	     /* the core waits for it */
	bool again;	     /* it was reset once more before it was clear */
	bool spare;	     /* it has used up its resets: it is cleared when nobody else waits */
	vgpu_nsec resets_at; /* token bucket of its resets, as the instant at which it is full */
};

/* Who takes turns at the engine that clears and copies: each VF that is cleared, and these. */
enum turn {
	TURN_MOVE = VGPU_GPU_MAX_VFS,
	TURN_FREE,
	TURNS,
};

/* A partition on its way. */
struct move {
	bool active, away_asked;
	uint32_t vf;
	uint64_t from, to, size, done;
	uint32_t tries; /* of the piece at hand */
	bool empty;	/* the VF has no context: nothing is copied */
	vgpu_nsec began;
	vgpu_nsec until; /* by then the VF must have left the engine */
};

/* The change under way. */
struct change {
	bool active;
	uint32_t id, attempts, resets;
	struct vgpu_memory_change want;
	struct vgpu_memory_plan plan;
	vgpu_nsec began, until;
	vgpu_nsec ask_at; /* not before that again to be kept away */
};

/* An entry of the GPU's table that is being written: at its end the move or the change goes on. */
struct placing {
	bool active;
	struct vgpu_extent where;
};

struct vgpu_memory_state {
	bool opened;
	vgpu_nsec now;
	struct vgpu_memory_output *out;

	uint32_t n_vfs;
	enum vgpu_placement placement;
	struct vgpu_partition partition;
	uint64_t usual[VGPU_GPU_MAX_VFS];
	struct vgpu_memory table;
	struct vgpu_memory_extent extents[VGPU_MEMORY_EXTENTS];

	struct vgpu_memory_vf vfs[VGPU_GPU_MAX_VFS];
	uint32_t telling;  /* VFs of which the core has not yet heard what we asked */
	bool engine_works; /* somebody is on it */

	struct piece piece;
	uint64_t step; /* bytes of the next piece */
	struct scrub scrubs[VGPU_GPU_MAX_VFS];
	uint32_t turn;			   /* who had the last piece: a VF, or one of enum turn */
	uint32_t free_tries;		   /* of the piece at hand of what is nobody's */
	vgpu_nsec background_at, retry_at; /* for what is nobody's */

	uint64_t host;		    /* bytes of host memory; 0: nobody is swapped */
	uint32_t pinned, swappable; /* by the configuration; else by their guarantees */
	struct vgpu_residency residency;
	vgpu_nsec swap_at;    /* no swap before that */
	vgpu_nsec observe_at; /* no look at who wants in before that */
	bool swap_waits;      /* for what is being cleared */
	vgpu_nsec look_at;    /* when swaps or a change are to be looked at by time alone */

	struct change change;
	struct move move;
	struct placing placing;
	struct vgpu_memory_counters counters;
};

static inline vgpu_nsec nsec_min(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

/* output.c: what is asked of the host. */
struct vgpu_memory_action *memory_act(struct vgpu_memory_state *m,
				      enum vgpu_memory_action_type type, uint32_t vf,
				      uint32_t code);
/* HOLD, RELEASE or RESET: the VF is not as we know it until the core has heard of that. */
void memory_tell(struct vgpu_memory_state *m, enum vgpu_memory_action_type type, uint32_t vf,
		 uint32_t code);
/* Looks again at T at the latest. */
void memory_look(struct vgpu_memory_state *m, vgpu_nsec t);

/* pieces.c */
void pieces_scrub(struct vgpu_memory_state *m, uint32_t vf);
void pieces_done(struct vgpu_memory_state *m, bool good);
void pieces_start(struct vgpu_memory_state *m);
vgpu_nsec pieces_deadline(const struct vgpu_memory_state *m);

/* move.c. Begins to move what lies at FROM. False: not yet. */
bool move_begin(struct vgpu_memory_state *m, uint64_t from, uint64_t to);
void move_advance(struct vgpu_memory_state *m);
void move_placed(struct vgpu_memory_state *m, bool good);
/* Whether a piece of it is to be copied; one has been. */
bool move_may_copy(const struct vgpu_memory_state *m);
void move_copied(struct vgpu_memory_state *m, uint64_t size, bool good);

/* homes.c: host memory. Whether a VF is never swapped out: nobody is, or it is configured so, or
 * its policy guarantees it time. */
bool homes_is_pinned(const struct vgpu_memory_state *m, uint32_t vf);
/* Whether a VF may be swapped out as it is now. */
bool homes_can_leave(const struct vgpu_memory_state *m, uint32_t vf);
/* The most that a VF may have so that all that are pinned, and the largest of the others, have room
 * on the GPU together. */
uint64_t homes_most(const struct vgpu_memory_state *m, uint32_t vf);
/* A place in host memory for a VF of SIZE; false: there is none, but at most LARGEST. */
bool homes_find(const struct vgpu_memory_state *m, uint32_t vf, uint64_t size,
		struct vgpu_extent *home, uint64_t *largest);
/* Homes of all that may have one: those that are out are at home. */
void homes_find_all(struct vgpu_memory_state *m);
/* The home of a VF that has another partition. */
void homes_give(struct vgpu_memory_state *m, uint32_t vf, struct vgpu_extent where);

/* swap.c */
void swap_advance(struct vgpu_memory_state *m);

/* change.c */
void resize_begin(struct vgpu_memory_state *m, uint32_t id, const struct vgpu_memory_change *want);
void resize_advance(struct vgpu_memory_state *m);
void resize_placed(struct vgpu_memory_state *m, bool good);

#endif
