/* SPDX-License-Identifier: MIT */
/*
 * The inside of the memory reducer. Each file has one idea, and calls only what stands below it
 * here (tests/lint checks it):
 *
 *   step.c       turns events into calls
 *   resize.c     carries out changes
 *   swap.c       decides which VFs are swapped where the GPU's memory is too small for all
 *   residency.c  decides for how long
 *   pieces.c     clears and copies, piece by piece
 *   move.c       moves one partition
 *   homes.c      places in host memory
 *   plan.c       plans a change
 *   partition.c  the partition of a GPU that is set up anew
 *   table.c      the table of extents
 *   table.h
 *   output.c     the actions of a step
 */
#pragma once

#include "vgpu/memory_step.h"
#include "vgpu/residency.h"

/* How often a piece is tried until its result is right: a guest that has mapped its memory, and
 * does not know of its reset yet, may write while the GPU clears it. */
#define TRIES 4u

enum piece_kind {
	PIECE_NONE = 0,
	PIECE_SETTLE, /* waits for a piece that an earlier process began */
	PIECE_SCRUB,  /* clears the memory of a VF that was reset */
	PIECE_FREE,   /* clears memory without an owner */
	PIECE_COPY,
	PIECE_PROBE, /* copies cleared memory to cleared host memory, and back, to measure the speed
		      */
};

struct piece {
	enum piece_kind kind;
	struct vgpu_extent where;
	uint64_t from; /* COPY, PROBE: the source */
	uint32_t vf;   /* SCRUB: the VF */
	bool stale;    /* the piece must be repeated, whatever its result */
	vgpu_nsec began;
};

/* The scrub of a VF's memory: its partition, followed by its slot of the context-save area. */
struct scrub {
	uint64_t at;   /* where the next piece begins */
	uint64_t left; /* bytes still to clear: from AT on, and around to AT again */
	uint32_t tries;
	bool wanted; /* the core waits for the end of the scrub */
	bool again;  /* the VF was reset once more before the scrub ended */
	bool spare;  /* the VF has exceeded its budget of resets: it is cleared when nothing else
			waits */
	vgpu_nsec resets_at; /* token bucket of its resets, as the instant at which it is full */
};

/* The parties that take turns at clearing and copying: each VF that is being scrubbed, and
 * these. */
enum turn {
	TURN_MOVE = VGPU_GPU_MAX_VFS,
	TURN_FREE,
	TURNS,
};

/* The move of a partition. */
struct move {
	bool active, away_asked;
	uint32_t vf;
	uint64_t from, to, size, done;
	uint32_t tries; /* attempts at the next piece */
	bool empty;	/* the VF has no context: nothing needs to be copied */
	vgpu_nsec began;
	vgpu_nsec until; /* when the move is abandoned if the VF has not left the engine */
};

/* The change in progress. */
struct change {
	bool active;
	uint32_t id, attempts, resets;
	struct vgpu_memory_change want;
	struct vgpu_memory_plan plan;
	vgpu_nsec began, until;
	vgpu_nsec ask_at; /* when to request the next HOLD with VGPU_KEEP_AWAY */
};

/* An entry of the GPU's table that is being written; then the move or the change continues. */
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
	vgpu_vf_set telling; /* VFs with a HOLD, RELEASE or RESET that the core has not applied
			     yet */
	bool engine_works;   /* a VF is on the engine or is being loaded */

	struct piece piece;
	uint64_t step; /* bytes of the next piece */
	struct scrub scrubs[VGPU_GPU_MAX_VFS];
	uint32_t turn;	     /* the last turn: a VF, or one of enum turn */
	uint32_t free_tries; /* attempts at the next piece of memory without an owner */
	vgpu_nsec background_at, retry_at; /* earliest next piece of memory without an owner */

	uint64_t host;		       /* bytes of host memory; 0: no VF is swapped */
	vgpu_vf_set pinned, swappable; /* as configured; see struct vgpu_memory_config */
	struct vgpu_residency residency;
	vgpu_nsec swap_at;    /* earliest next swap */
	vgpu_nsec observe_at; /* when to check the VFs for swaps next */
	bool swap_waits;      /* a swap waits for memory that is being cleared */
	vgpu_nsec look_at;    /* when to check swaps or a change again without another event */

	struct change change;
	struct move move;
	struct placing placing;
	struct vgpu_memory_counters counters;
};

static inline vgpu_nsec nsec_min(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

/* output.c: actions for the host. */
struct vgpu_memory_action *memory_act(struct vgpu_memory_state *m,
				      enum vgpu_memory_action_type type, uint32_t vf,
				      uint32_t code);
/* HOLD, RELEASE or RESET of a VF, whose known state is stale until the core has applied the action.
 */
void memory_act_on_vf(struct vgpu_memory_state *m, enum vgpu_memory_action_type type, uint32_t vf,
		      uint32_t code);
/* Makes the deadline T or earlier. */
void memory_wake_by(struct vgpu_memory_state *m, vgpu_nsec t);

/* pieces.c */
void pieces_scrub(struct vgpu_memory_state *m, uint32_t vf);
void pieces_done(struct vgpu_memory_state *m, bool good);
void pieces_start(struct vgpu_memory_state *m);
vgpu_nsec pieces_deadline(const struct vgpu_memory_state *m);

/* move.c. Begins to move the extent at FROM. False: not possible yet. */
bool move_begin(struct vgpu_memory_state *m, uint64_t from, uint64_t to);
void move_advance(struct vgpu_memory_state *m);
void move_placed(struct vgpu_memory_state *m, bool good);
/* move_may_copy: whether a piece of the move may be copied now. move_copied: a piece has been
 * copied. */
bool move_may_copy(const struct vgpu_memory_state *m);
void move_copied(struct vgpu_memory_state *m, uint64_t size, bool good);

/* homes.c: host memory. homes_is_pinned returns whether a VF is never swapped out: because there is
 * no host memory, because it is configured as pinned, or because its policy guarantees it time. */
bool homes_is_pinned(const struct vgpu_memory_state *m, uint32_t vf);
/* Returns whether a VF may be swapped out in its present state. */
bool homes_can_leave(const struct vgpu_memory_state *m, uint32_t vf);
/* The largest size for a VF such that all pinned VFs and the largest of the others fit on the GPU
 * together. */
uint64_t homes_most(const struct vgpu_memory_state *m, uint32_t vf);
/* Finds a home for a VF of SIZE; false: there is no room, LARGEST is the largest possible. */
bool homes_find(const struct vgpu_memory_state *m, uint32_t vf, uint64_t size,
		struct vgpu_extent *home, uint64_t *largest);
/* Finds homes for all VFs that may have one. VFs that are swapped out are at home. */
void homes_find_all(struct vgpu_memory_state *m);
/* Updates the home of a VF whose partition has changed to WHERE. */
void homes_give(struct vgpu_memory_state *m, uint32_t vf, struct vgpu_extent where);

/* swap.c */
void swap_advance(struct vgpu_memory_state *m);

/* resize.c */
void resize_begin(struct vgpu_memory_state *m, uint32_t id, const struct vgpu_memory_change *want);
void resize_advance(struct vgpu_memory_state *m);
void resize_placed(struct vgpu_memory_state *m, bool good);
