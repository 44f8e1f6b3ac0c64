/* SPDX-License-Identifier: MIT */
/*
 * The inside of the governor. Each file has one idea, and calls only files below it in this list
 * (tests/lint checks that):
 *
 *   step.c         turns events into calls; the life of an epoch
 *   claims.c       checks and sets the policy and its parameters
 *   refuse.c       the reasons for refusing what no firmware can do
 *   virtual.c      the policy divides an epoch, in virtual time
 *   measure.c      derives service, sleep and lateness from an epoch's counters
 *   schedule.c     turns what VFs are due into quanta, and decides whether to write them
 *   dues.c         computes what VFs are due
 *   promise.c      bounds
 *   search.c       the quanta with the least error
 */
#pragma once

#include <assert.h>

#include "vgpu/governor.h"
#include "vgpu/lag.h"

/* The largest number of turns that a policy divides one epoch into. A slice is at least this small
 * a part of the epoch, which bounds the cost of a step. */
#define TURNS_PER_EPOCH 128u

/* Factor by which rotations may exceed the sum of quanta and lateness, Q20; they are seldom
 * shorter. */
#define NO_STRETCH (UINT64_C(1) << 20)
#define MOST_STRETCH (NO_STRETCH / 4)

/* Number of epochs over which a VF's lateness is averaged. */
#define LATE_GAIN 16

/* Number of epochs in which all VFs must get a turn even if all stop as late as they may. By
 * simulation with epochs of 500 ms: below that, 2 to 31 VFs, of which any number stop as late as
 * they may, keep their bounds with room (0.92 of them at most); 8 VFs with time-outs of 600 ms (10
 * epochs) do not. */
#define LONGEST_ROTATION 5u

/* Fractions are Q32; lengths inside the search are quantum steps in Q16. */
#define WHOLE (UINT64_C(1) << 32)
#define ONE_STEP (UINT64_C(1) << 16)

struct governed {
	bool admitted;
	bool awake; /* the policy knows that the VF has work */
	enum vgpu_governed_state state;
	bool doubted; /* it may not have the work that it seems to have */
	bool aside;   /* in doubt, beside others that are not: does not compete with them */
	struct vgpu_governed_ledger ledger;
	vgpu_nsec counter;	    /* last reading of its counter */
	vgpu_nsec unserved;	    /* approximate time since it was last on the engine */
	vgpu_nsec served;	    /* service in the last epoch */
	vgpu_nsec given;	    /* service that the policy gave for the last epoch */
	vgpu_nsec quantum, timeout; /* in force */
	vgpu_nsec before;	    /* quantum in force until the epoch began */
	vgpu_nsec longest;	    /* longest quantum that may have been in force since then */
	vgpu_nsec round; /* one longest turn of each VF since this one was served, without time-outs
			  */
	vgpu_nsec late;	 /* estimate of the lateness per turn */
	int64_t lessons; /* number of epochs in LATE, at most LATE_GAIN */
	int64_t owed;	 /* service owed at the end of the last epoch */
	int64_t fluid;	 /* the policy's ideal service in the last epoch; if aside, as if it had had
			    work */
	vgpu_nsec cut;	 /* written off as too much to carry, withheld in doubt, or paid to VFs in
			    doubt */
	vgpu_nsec worst; /* the largest carry so far, either way */
};

struct vgpu_governor {
	struct vgpu_governor_config config;
	struct vgpu_facts facts; /* facts for policies */
	enum vgpu_governor_mode mode;
	const struct vgpu_policy_ops *policy;
	void *memory;
	int64_t params[VGPU_MAX_PARAMS];
	int64_t vf_params[VGPU_GPU_MAX_VFS * VGPU_MAX_PARAMS];
	vgpu_nsec now;	   /* time of the last step */
	vgpu_nsec virtual; /* the policy's virtual time */
	vgpu_nsec busy;	   /* sum of all service in the last epoch */
	vgpu_nsec epoch_began, epoch_ends;
	vgpu_nsec length; /* length of the last epoch */
	uint64_t stretch; /* ratio of real rotations to those computed from quanta and lateness, Q20
			   */
	bool reading, programming, rewrite;
	bool keep_turns, kept_turns; /* as the policy requires; as in force */
	bool placed;		     /* a plan of the governor is, or was, in force */
	bool in_part;		     /* the plan in force may be a part of one that failed */
	vgpu_nsec placed_at;	     /* when the last plan came into force */
	vgpu_nsec answered_at;	     /* when the last program had succeeded, or failed */
	bool stop_waits;	     /* the final plan waits for the one being programmed */
	bool some_aside;	     /* a VF stands aside in the epoch being divided */
	uint32_t n_still;	     /* epochs in which no counter moved */
	struct vgpu_program asked;   /* the program in progress */
	vgpu_nsec wall, idle, unread;
	uint64_t epochs, plans, writes, clamped, failed;
	struct governed vfs[VGPU_GPU_MAX_VFS];
	struct vgpu_governor_output *out; /* output of the step in progress */
};

/* The input of search.c. */
struct target {
	uint32_t n;
	uint64_t rotation; /* largest sum of quanta, steps */
	uint64_t most;	   /* the same for a new plan: an eighth less if VFs stand aside */
	uint64_t wanted;   /* preferred sum of quanta for plans of about equal quality */
	struct {
		uint64_t part; /* part of all the time, Q32; the parts of all VFs add up to WHOLE */
		uint64_t share; /* of the time of the VFs that compete, Q32; 0: does not compete */
		bool aside; /* its share is part of the time of all VFs; those that compete have no
			     * share of its time */
		uint64_t floor;	 /* the least part of the time that the firmware must ensure, Q32 */
		uint64_t others; /* time-outs and switches of the other VFs, Q16 */
		uint64_t late;	 /* lateness, Q16 */
		uint64_t least;	 /* least quantum, steps */
		uint64_t now;	 /* quantum in force, steps */
		uint64_t longest; /* longest quantum that may be in force, steps: more after a
				     failed plan */
	} vfs[VGPU_GPU_MAX_VFS];
};

struct quanta {
	uint64_t steps[VGPU_GPU_MAX_VFS];
};

static inline vgpu_nsec min_ns(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

/* Returns whether readings may cut turns, so that debts are known up to a turn: the slack is that
 * large. */
static inline bool may_cut_turns(const struct vgpu_governor *g)
{
	return g->config.slack >= g->config.turn;
}

static inline vgpu_nsec max_ns(vgpu_nsec a, vgpu_nsec b)
{
	return a > b ? a : b;
}

/* claims.c */
int claims_set_policy(struct vgpu_governor *g, const struct vgpu_governor_event *event);
int claims_set_params(struct vgpu_governor *g, const struct vgpu_governor_event *event);
int claims_set_vf(struct vgpu_governor *g, const struct vgpu_governor_event *event);

/* refuse.c */
/* Returns why no firmware supports PARAMS, or those of a VF; or NULL. */
const char *refuse_params(const struct vgpu_governor *g, const struct vgpu_policy_ops *policy,
			  const int64_t *params);
const char *refuse_vf(const struct vgpu_policy_ops *policy, const int64_t *values);
/* Returns why this GPU cannot keep the present promises of POLICY, in MEMORY, to the VFs; or
 * NULL. */
const char *refuse_promises(struct vgpu_governor *g, const struct vgpu_policy_ops *policy,
			    void *memory);
/* Returns the mode for the policy, and whether turns without work are kept. */
enum vgpu_governor_mode refuse_mode(const struct vgpu_policy_ops *policy, const int64_t *params,
				    bool *keep_turns);

/* virtual.c */
/* Has the policy divide the service of the last epoch. Returns false if it broke its contract. */
bool virtual_run(struct vgpu_governor *g);

/* measure.c */
/* Closes an epoch with the counter readings ACTIVE; NULL: reading failed. Returns false if they are
 * not usable. */
bool measure_close(struct vgpu_governor *g, const vgpu_nsec *active);

/* schedule.c */
/* Issues the plan, if it is worth its writes. */
void schedule_due(struct vgpu_governor *g);
/* Issues the policy's shares, without corrections. */
void schedule_nominal(struct vgpu_governor *g);

/* dues.c */
/* Adds the competing VFs and their dues to T. TO_HALF: debts are paid down to half of the slack.
 * Returns how many VFs have work. */
uint32_t dues_compete(const struct vgpu_governor *g, struct target *t, bool to_half);

/* promise.c */
void promise_bound(const struct vgpu_governor *g, uint32_t vf, struct vgpu_governed_bound *out);
/* Returns the longest wait of a VF with work. */
vgpu_nsec promise_wait(const struct vgpu_governor *g, uint32_t vf);
/* Returns how far apart plans take effect, at most an epoch, so that no wait contains more of them
 * than promise_wait() counts. */
vgpu_nsec promise_apart(const struct vgpu_governor *g);
/* Writes each VF's part of the sum of all promises, Q32. */
void promise_parts(const struct vgpu_governor *g, uint64_t *parts);
/* Returns a VF's time-out: in force, or about to be. */
vgpu_nsec promise_stop(const struct vgpu_governor *g, uint32_t vf);
/* Returns whether VFs with work may wait for so many epochs that they look asleep: then no lag is
 * bounded. */
bool promise_is_lost(const struct vgpu_governor *g);
/* Returns the time-outs of all VFs but one (VGPU_NO_VF: of all), and the switches. */
vgpu_nsec promise_others(const struct vgpu_governor *g, uint32_t vf);

/* search.c */
/* Returns the largest error of the share of a competing VF under quanta Q, Q32; WHOLE if Q does not
 * fit. If that is LIMIT or more, it may return less, but no less than LIMIT. */
uint64_t search_error(const struct target *t, const struct quanta *q, uint64_t limit);
/* Writes the quanta with the least error, at a COST (Q32) for each that differs from the one in
 * force. */
void search_quanta(const struct target *t, uint64_t cost, struct quanta *out);
