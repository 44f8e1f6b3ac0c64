/* SPDX-License-Identifier: MIT */
/*
 * The memory reducer: manages the memory of a running GPU as one function from events to actions.
 * It owns the table of partitions, and clears, resizes, moves and swaps them.
 *
 * It does for memory what vgpu/core.h does for time, and is as pure: no clock, no device, no
 * allocation. It queries nothing: VGPU_ME_VF tells it the state of VFs, and further events tell it
 * the outcome of its actions. The loop around it waits until vgpu_memory_deadline() or until
 * something happens, steps, and carries out the actions in order.
 *
 * The GPU's own table of partitions is authoritative. The reducer's table is made from it at each
 * start, and all memory without an owner is then cleared again. So if the host process is killed at
 * any instant, every partition is the old one or the new one, and no memory is given to an owner
 * uncleared.
 *
 * Not thread-safe: one thread steps one reducer.
 */
#pragma once

#include "vgpu/core.h"
#include "vgpu/partition.h"

/* Extents of a table: at most six for each VF, in the GPU's memory and the host's together. */
#define VGPU_MEMORY_EXTENTS (6 * VGPU_GPU_MAX_VFS)
/* The PF, as the owner of an extent. */
#define VGPU_MEMORY_PF VGPU_GPU_MAX_VFS
/* A size: the VF's usual one, which it has without a VM, as configured or as last set. */
#define VGPU_MEMORY_USUAL UINT64_MAX

/* Kinds of changes. */
enum vgpu_memory_what {
	VGPU_MEMORY_SET = 0, /* resize the VF's partition; size 0: the VF has none */
	VGPU_MEMORY_PLAN,    /* change nothing, but answer with the plan of SET */
	VGPU_MEMORY_COMPACT, /* join free memory into one extent, as far as possible */
};

struct vgpu_memory_change {
	enum vgpu_memory_what what;
	uint32_t vf;
	uint64_t size; /* bytes, or VGPU_MEMORY_USUAL */
	bool force;    /* reset the VF if it is in use */
	bool usual;    /* make this its usual size */
};

/* The plan of a change. */
struct vgpu_memory_plan {
	uint64_t size;	    /* bytes of the new partition */
	uint64_t offset;    /* where it will be */
	uint64_t clear;	    /* bytes to clear first */
	uint64_t move;	    /* bytes to move first */
	vgpu_vf_set movers; /* VFs whose memory is moved */
	uint64_t largest;   /* if the change is impossible: the largest size that is possible */
};

/* Why a change was refused. */
enum vgpu_memory_reason {
	VGPU_MEMORY_DONE = 0,
	VGPU_MEMORY_ANOTHER,   /* -EBUSY: another change is under way */
	VGPU_MEMORY_IN_USE,    /* -EBUSY: the VF is in use, and `force` is not set */
	VGPU_MEMORY_NO_ROOM,   /* -ENOSPC: plan.largest is the largest possible size */
	VGPU_MEMORY_UNMOVED,   /* -ETIMEDOUT: a VF in the way could not be moved */
	VGPU_MEMORY_LATE,      /* -ETIMEDOUT: the memory needed did not become free */
	VGPU_MEMORY_NOT_TAKEN, /* -EIO: the GPU kept the old partition */
	VGPU_MEMORY_INVALID,   /* -EINVAL: no such VF or size; -ENOMEM: the table is full */
};

/* The state of a VF, as far as the memory reducer needs it. */
struct vgpu_memory_vf {
	enum vgpu_vf_state state;
	bool has_work;
	bool empty;	  /* it has no context */
	bool kept;	  /* a HOLD of the reducer keeps it from the engine */
	bool away;	  /* a HOLD with VGPU_KEEP_AWAY keeps it from the engine */
	bool parked;	  /* kept, and off the engine, with its context saved or without one */
	bool guaranteed;  /* its policy guarantees it time */
	vgpu_nsec run_ns; /* time on the engine so far */
	uint64_t share[2];
};

/* The ways in which a HOLD keeps a VF from the engine. */
enum vgpu_memory_keep {
	VGPU_KEEP_HELD = 0, /* until RELEASE, or a reset or window of the VF: VGPU_EV_HOLD */
	VGPU_KEEP_AWAY,	    /* until RELEASE alone: VGPU_EV_AWAY */
};

enum vgpu_memory_event_type {
	VGPU_ME_TIMER = 0, /* the deadline has come */
	VGPU_ME_VF,	   /* the state of `vf` is `is`; code 1: the core has by now applied all
			    * earlier HOLDs, RELEASEs and RESETs of `vf` */
	VGPU_ME_ENGINE,	   /* all changes of VFs were reported by VGPU_ME_VF; the reducer may act on
			      them. code: whether a VF is on the engine or is being loaded */
	VGPU_ME_SCRUB,	   /* the core wants the memory of `vf` cleared: one SCRUBBED follows */
	VGPU_ME_DONE,	   /* the CLEAR or COPY under way is over. value: 0: done and verified;
			    * else it failed, or its result is wrong */
	VGPU_ME_PLACED,	   /* PLACE is over. value: 0; else the GPU kept the old partition */
	VGPU_ME_CHANGE,	   /* `change` is requested; one ANSWER with the same `code` follows */
	VGPU_ME_COUNT,
};

struct vgpu_memory_event {
	vgpu_nsec now; /* not earlier than in the last step */
	enum vgpu_memory_event_type type;
	uint32_t vf, code;
	int64_t value;
	union {
		struct vgpu_memory_vf is;
		struct vgpu_memory_change change;
	};
};

enum vgpu_memory_action_type {
	/* CLEAR and COPY: only one at a time; one VGPU_ME_DONE follows each. */
	VGPU_MA_CLEAR = 0, /* clear `where` */
	VGPU_MA_COPY,	   /* copy from `from` to `where` */
	VGPU_MA_PLACE,	   /* set the partition of `vf` to `where`, in the GPU's table; PLACED
			    * follows */
	VGPU_MA_HOLD,	   /* keep `vf` from the engine; code: enum vgpu_memory_keep. Here and for
			    * the next two, VGPU_ME_VF with code 1 follows */
	VGPU_MA_RELEASE,   /* end a HOLD; code: its enum vgpu_memory_keep */
	VGPU_MA_RESET,	   /* reset `vf`, as an operator does */
	VGPU_MA_SCRUBBED,  /* send VGPU_EV_SCRUBBED to the core; value: 0 or -EIO */
	VGPU_MA_ANSWER,	   /* answer change `id`; value: 0 or -errno; code: enum
			    * vgpu_memory_reason; `plan` */
};

struct vgpu_memory_action {
	enum vgpu_memory_action_type type;
	uint32_t vf, code;
	int64_t value;
	union {
		struct {
			struct vgpu_extent where;
			uint64_t from;
		};
		struct {
			uint32_t id;
			struct vgpu_memory_plan plan;
		};
	};
};

/* The largest number of actions of one step: two for each VF, and some others. Exceeding it is a
 * bug and aborts the program. */
#define VGPU_MEMORY_ACTIONS (3 * VGPU_GPU_MAX_VFS)

struct vgpu_memory_output {
	uint32_t n;
	struct vgpu_memory_action actions[VGPU_MEMORY_ACTIONS];
};

/* Counters since the first open; `cleared`, `moved` and `swapped` in bytes. */
struct vgpu_memory_counters {
	uint64_t cleared, moved, moves, aborted_moves, failed_pieces;
	vgpu_nsec waited; /* the time that changes waited for clearing and moving */
	/* [0]: out, [1]: back in; swaps of VFs that have guests */
	uint64_t swaps[2], swapped[2], aborted_swaps;
	vgpu_nsec swap_time[2]; /* moving mean of the length of one swap */
	uint64_t swap_rate[2];	/* bytes per second, as last measured; 0: not measured yet */
};

/* A GPU that has just been opened. */
struct vgpu_memory_config {
	uint32_t n_vfs;
	uint64_t total, host, granule; /* bytes: GPU memory, host memory, and the unit of both */
	enum vgpu_placement placement;
	struct vgpu_partition partition; /* as found on the GPU, without homes */
	uint64_t usual[VGPU_GPU_MAX_VFS];
	/* bitmaps of VFs; a VF in neither is pinned while its policy guarantees it time */
	vgpu_vf_set pinned, swappable;
	vgpu_nsec epoch;  /* shortest epoch of swapping */
	bool host_is_new; /* host memory was never used */
};

struct vgpu_memory_state;

/* Returns the bytes of memory that vgpu_memory_open needs. */
size_t vgpu_memory_state_size(void);
/*
 * Makes a reducer in MEMORY, which the caller owns: zeroed, or of a reducer that served an earlier
 * opening of the GPU, whose counters and usual sizes are kept. An earlier process may have left a
 * CLEAR or COPY under way: the reducer does nothing before one VGPU_ME_DONE. When the core knows
 * the VFs, the caller sends it VGPU_EV_AWAY for each whose memory is not on the GPU. Cannot fail.
 */
struct vgpu_memory_state *vgpu_memory_open(void *memory, const struct vgpu_memory_config *config);

/* Applies one event. Drops an event that answers no action in progress, or names no VF; always
 * answers a change. Never blocks. */
void vgpu_memory_step(struct vgpu_memory_state *m, const struct vgpu_memory_event *event,
		      struct vgpu_memory_output *out);

/* Returns when VGPU_ME_TIMER is due; VGPU_NEVER if nothing is pending. */
vgpu_nsec vgpu_memory_deadline(const struct vgpu_memory_state *m);

/* How soon the caller must report changes of VFs by VGPU_ME_VF and VGPU_ME_ENGINE. It must report
 * all changes before a CHANGE; and before any other event, except in state ASLEEP. */
enum vgpu_memory_attention {
	VGPU_MEMORY_ASLEEP = 0, /* never */
	VGPU_MEMORY_LOOKS,	/* within about a millisecond */
	VGPU_MEMORY_WAITS,	/* at once */
};
enum vgpu_memory_attention vgpu_memory_attention(const struct vgpu_memory_state *m);

/* Returns the state of a VF for the memory reducer, from the core's view of the VF. */
static inline struct vgpu_memory_vf vgpu_memory_vf_of(const struct vgpu_vf_view *view)
{
	bool kept = view->held || view->away;

	return (struct vgpu_memory_vf){
		.state = view->state,
		.has_work = view->has_work,
		.empty = view->context == VGPU_CTX_NONE,
		.kept = kept,
		.away = view->away,
		.parked = kept && !view->on_engine && !view->comes &&
			  (view->context == VGPU_CTX_NONE || view->context == VGPU_CTX_SAVED),
		.guaranteed = view->bound.period > 0,
		.run_ns = view->ledger.run_ns,
		.share = {view->share_numerator, view->share_denominator},
	};
}

/* Returns whether the memory of a VF in STATE can be moved: it has no guest driver, or one that can
 * be kept waiting. */
static inline bool vgpu_memory_can_move(enum vgpu_vf_state state)
{
	return state == VGPU_VF_AVAIL || state == VGPU_VF_ACTIVE;
}

/* The reducer's state as of the last step. */
struct vgpu_memory_view {
	uint32_t n_extents;
	struct vgpu_memory_extent extents[VGPU_MEMORY_EXTENTS];
	struct vgpu_partition partition;
	struct vgpu_memory_counters counters;
	vgpu_vf_set pinned; /* VFs that are not swapped */
	uint32_t moving;    /* the VF whose memory is being moved, or VGPU_NO_VF */
	/* the present epoch of swapping; the longest time that a VF with work waited while swapped
	 * out */
	vgpu_nsec epoch, waited;
};

/* Writes the reducer's state. */
void vgpu_memory_view(const struct vgpu_memory_state *m, struct vgpu_memory_view *out);
/* Returns whether the memory of VF is on the GPU, not swapped out. */
bool vgpu_memory_is_here(const struct vgpu_memory_state *m, uint32_t vf);
/* Returns whether VF is pinned while the GPU's memory is too small for all pinned VFs and the
 * largest of the others together. */
bool vgpu_memory_overflows(const struct vgpu_memory_state *m, uint32_t vf);
