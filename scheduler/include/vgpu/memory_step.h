/* SPDX-License-Identifier: MIT */
/*
 * The memory of a GPU while it works, as one function from events to actions: who has what, what is
 * cleared, and partitions that change, move and are swapped.
 *
 * It is to memory what vgpu/core.h is to time, and as pure: no clock, no device, no allocation. It
 * asks nobody anything: how VFs are is told to it by VGPU_ME_VF, what came of its actions by
 * further events. The loop around it waits until vgpu_memory_deadline() or for something to happen,
 * steps, and carries the actions out in their order.
 *
 * The GPU's own table says who has what; ours is made from it at each start, and what is nobody's
 * is then cleared again. So whenever the host is killed, every partition is the old one or the new
 * one, and nothing that was not cleared is given out.
 *
 * Not thread-safe: one thread steps one memory.
 */
#ifndef VGPU_MEMORY_STEP_H
#define VGPU_MEMORY_STEP_H

#include "vgpu/core.h"
#include "vgpu/partition.h"

/* Extents of a table: no more than six for each VF, in the GPU's memory and the host's. */
#define VGPU_MEMORY_EXTENTS (6 * VGPU_GPU_MAX_VFS)
/* The owner of what is the PF's. */
#define VGPU_MEMORY_PF VGPU_GPU_MAX_VFS
/* A size: what the VF has without a VM, by the configuration or by what was last set. */
#define VGPU_MEMORY_USUAL UINT64_MAX

/* What is asked for. */
enum vgpu_memory_what {
	VGPU_MEMORY_SET = 0, /* the VF's partition gets another size; 0: the VF has none */
	VGPU_MEMORY_PLAN,    /* what that would take */
	VGPU_MEMORY_COMPACT, /* what is free becomes one piece, as far as that is possible */
};

struct vgpu_memory_change {
	enum vgpu_memory_what what;
	uint32_t vf;
	uint64_t size; /* bytes, or VGPU_MEMORY_USUAL */
	bool force;    /* a VF that is in use is reset */
	bool usual;    /* from now on this is its usual size */
};

/* What a change takes. */
struct vgpu_memory_plan {
	uint64_t size;	  /* bytes: what USUAL stands for */
	uint64_t offset;  /* where the partition will be */
	uint64_t clear;	  /* bytes that have to be cleared first */
	uint64_t move;	  /* bytes that have to be moved */
	uint32_t movers;  /* bitmap of VFs */
	uint64_t largest; /* of a change that is impossible: the most that there could be */
};

/* Why a change was refused. */
enum vgpu_memory_reason {
	VGPU_MEMORY_DONE = 0,
	VGPU_MEMORY_ANOTHER,   /* -EBUSY: another change is under way */
	VGPU_MEMORY_IN_USE,    /* -EBUSY: the VF is, and it was not asked for by force */
	VGPU_MEMORY_NO_ROOM,   /* -ENOSPC: plan.largest is the most that can be had */
	VGPU_MEMORY_UNMOVED,   /* -ETIMEDOUT: a VF in the way could not be moved */
	VGPU_MEMORY_LATE,      /* -ETIMEDOUT: what is needed did not become free */
	VGPU_MEMORY_NOT_TAKEN, /* -EIO: the GPU kept the old partition */
	VGPU_MEMORY_INVALID,   /* -EINVAL: no such VF or size; -ENOMEM: the table is full */
};

/* A VF, as memory has to know it. */
struct vgpu_memory_vf {
	enum vgpu_vf_state state;
	bool has_work;
	bool empty;	  /* it has no context */
	bool kept;	  /* from the engine, by a HOLD of ours */
	bool away;	  /* the same, with VGPU_KEEP_AWAY */
	bool parked;	  /* kept, and off the engine, with its context saved or none */
	bool guaranteed;  /* its policy guarantees it time */
	vgpu_nsec run_ns; /* that it has had of the engine in all */
	uint64_t share[2];
};

/* How a HOLD keeps a VF from the engine. */
enum vgpu_memory_keep {
	VGPU_KEEP_HELD = 0, /* until a reset or a window of its own: VGPU_EV_HOLD */
	VGPU_KEEP_AWAY,	    /* until RELEASE, whatever happens: VGPU_EV_AWAY */
};

enum vgpu_memory_event_type {
	VGPU_ME_TIMER = 0, /* the deadline has come */
	VGPU_ME_VF,	   /* `vf` is as `is` says; with code 1: as it is now that the core has
			    * heard of each HOLD, RELEASE and RESET of it before */
	VGPU_ME_ENGINE,	   /* this was told of all VFs that are other than before, which is acted
			    * upon now; code: whether somebody is on the engine, or on the way */
	VGPU_ME_SCRUB,	   /* the core wants the memory of `vf` cleared: one SCRUBBED follows */
	VGPU_ME_DONE,	   /* the CLEAR or COPY under way is over. value: 0, and it was looked at;
			    * else it failed, or is not as it should be */
	VGPU_ME_PLACED,	   /* value: 0; else the GPU has kept the old partition */
	VGPU_ME_CHANGE,	   /* `change` is asked for; one ANSWER with its `code` follows */
	VGPU_ME_COUNT,
};

struct vgpu_memory_event {
	vgpu_nsec now; /* never before that of the last step */
	enum vgpu_memory_event_type type;
	uint32_t vf, code;
	int64_t value;
	union {
		struct vgpu_memory_vf is;
		struct vgpu_memory_change change;
	};
};

enum vgpu_memory_action_type {
	/* One at a time, and one VGPU_ME_DONE follows. */
	VGPU_MA_CLEAR = 0, /* clear `where` */
	VGPU_MA_COPY,	   /* copy to `where` what is at `from` */
	VGPU_MA_PLACE,	   /* `vf` has `where`: the entry in the GPU's table; PLACED follows */
	VGPU_MA_HOLD,	   /* keep `vf` from the engine; code: enum vgpu_memory_keep. Here and for
			    * the next two, VGPU_ME_VF with code 1 follows */
	VGPU_MA_RELEASE,   /* no longer so; code: which of them */
	VGPU_MA_RESET,	   /* reset `vf`, as an operator does */
	VGPU_MA_SCRUBBED,  /* tell the core; value: 0 or -EIO */
	VGPU_MA_ANSWER,	   /* to the change `id`; value: 0 or -errno, code: why, with `plan` */
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

/* One step asks for at most this: two things of each VF, and a few beside. More would be a bug, and
 * stops the program. */
#define VGPU_MEMORY_ACTIONS (3 * VGPU_GPU_MAX_VFS)

struct vgpu_memory_output {
	uint32_t n;
	struct vgpu_memory_action actions[VGPU_MEMORY_ACTIONS];
};

/* Bytes, but for moves. */
struct vgpu_memory_counters {
	uint64_t cleared, moved, moves, aborted_moves, failed_pieces;
	vgpu_nsec waited; /* by changes, for clearing and moving */
	/* out, and in again: swaps of VFs that have guests */
	uint64_t swaps[2], swapped[2], aborted_swaps;
	vgpu_nsec swap_time[2]; /* that one takes, a moving mean */
	uint64_t swap_rate[2];	/* bytes a second, as last measured; 0: not yet */
};

/* A GPU that has just been opened. */
struct vgpu_memory_config {
	uint32_t n_vfs;
	uint64_t total, host, granule; /* bytes: of the GPU, of the host, and the unit of both */
	enum vgpu_placement placement;
	struct vgpu_partition partition; /* as it is, without homes */
	uint64_t usual[VGPU_GPU_MAX_VFS];
	uint32_t pinned, swappable; /* VFs that are; the others are by their guarantees */
	vgpu_nsec epoch;	    /* of swapping, at least */
	bool host_is_new;	    /* nothing was ever in host memory */
};

struct vgpu_memory_state;

/* Bytes of memory that vgpu_memory_open needs. */
size_t vgpu_memory_state_size(void);
/*
 * Makes a memory in MEMORY, the caller's: zeroed, or of a GPU that was open before, whose counters
 * and usual sizes are kept. Something may be under way at the GPU that a predecessor has begun: one
 * VGPU_ME_DONE has to come before anything is done. The core, when it knows the VFs, is to be told
 * by VGPU_EV_AWAY which of them are not here. Cannot fail.
 */
struct vgpu_memory_state *vgpu_memory_open(void *memory, const struct vgpu_memory_config *config);

/* Applies one event. What does not fit what is under way, or names no VF, is dropped; a change is
 * answered in any case. Never blocks. */
void vgpu_memory_step(struct vgpu_memory_state *m, const struct vgpu_memory_event *event,
		      struct vgpu_memory_output *out);

/* When VGPU_ME_TIMER is due at the latest; VGPU_NEVER if nothing is pending. */
vgpu_nsec vgpu_memory_deadline(const struct vgpu_memory_state *m);

/* How soon VGPU_ME_VF and VGPU_ME_ENGINE have to tell of what is new. Before a CHANGE all must be
 * known in any case; unless it is asleep, before each other event, too. */
enum vgpu_memory_attention {
	VGPU_MEMORY_ASLEEP = 0, /* not at all */
	VGPU_MEMORY_LOOKS,	/* within a millisecond or so */
	VGPU_MEMORY_WAITS,	/* at once */
};
enum vgpu_memory_attention vgpu_memory_attention(const struct vgpu_memory_state *m);

/* How a VF is, of a core's view of it. */
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
		.guaranteed = view->bound.budget > 0,
		.run_ns = view->ledger.run_ns,
		.share = {view->share_numerator, view->share_denominator},
	};
}

/* Whether the memory of a VF in that state can be moved: it has no guest, or one that can be kept
 * waiting. */
static inline bool vgpu_memory_can_move(enum vgpu_vf_state state)
{
	return state == VGPU_VF_AVAIL || state == VGPU_VF_ACTIVE;
}

/* All of it, as of the last step. */
struct vgpu_memory_view {
	uint32_t n_extents;
	struct vgpu_memory_extent extents[VGPU_MEMORY_EXTENTS];
	struct vgpu_partition partition;
	struct vgpu_memory_counters counters;
	uint32_t pinned;	 /* VFs that are not swapped */
	uint32_t moving;	 /* the VF that is on its way, or VGPU_NO_VF */
	vgpu_nsec epoch, waited; /* of swapping, as it is; and the longest that a VF has waited */
};

void vgpu_memory_view(const struct vgpu_memory_state *m, struct vgpu_memory_view *out);
/* Whether a VF's memory is on the GPU, and not swapped out. */
bool vgpu_memory_is_here(const struct vgpu_memory_state *m, uint32_t vf);
/* Whether a VF is pinned to the GPU's memory, and it has no room for all that are so and the
 * largest of the others. */
bool vgpu_memory_overflows(const struct vgpu_memory_state *m, uint32_t vf);

#endif
