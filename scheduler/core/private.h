/* SPDX-License-Identifier: MIT */
/*
 * Inside the core. Each file has one idea, and calls only what stands below it here (tests/lint
 * sees to that):
 *
 *   step.c         turns events into calls; each step ends in one decision
 *   guest.c        what guests ask for
 *   switch.c       the world switch, and that decision: where the engine goes
 *   ladder.c       resets, and how they escalate
 *   dispatch.c     the grant that is open
 *   window.c       the queue for exclusive windows
 *   policy_host.c  the policy and its limits
 *   ledger.c       where the time goes
 *   output.c       what a step says
 *
 * Who would have to call upwards leaves a note (struct notes) instead, for the end of the step.
 */
#ifndef CORE_PRIVATE_H
#define CORE_PRIVATE_H

#include "vgpu/core.h"

/* Guards against abuse; the numbers are AMD's (libgv amdgv_guard.h) but for hangs, which are
 * ours: three strikes in a minute. */
#define WINDOWS_PER_MINUTE 9u
#define RESETS_PER_MINUTE 3u
#define WINDOW_TIMEOUTS 2u
#define WINDOW_TIMEOUT_SPAN (500 * VGPU_SEC)
#define STRIKES 3u
#define STRIKE_SPAN (60 * VGPU_SEC)
#define BACKOFF_FIRST (1 * VGPU_SEC)
#define BACKOFF_LAST (60 * VGPU_SEC)

/* Debts of windows and resets: charged over this many dispatches, and no more than this is owed. */
#define DEBT_TURNS 60u
#define DEBT_MAX (2 * VGPU_SEC)

/* Preemptions that a VF's wakes may cause: 200 a second, so that the shortest period that a
 * guarantee may have, 5 ms, is never limited; 10 at once. */
#define WAKE_BURST 10u
#define WAKE_REFILL (5 * VGPU_MSEC)

/* A policy that has just taken over stays until every VF that was waiting has run once, or had no
 * more work; but no longer than this: what a policy makes wait for ever must be replaceable. */
#define POLICY_STAYS VGPU_SEC

/* Preemption times whose median counts: two outliers in a row do not. */
#define STOPS 5u

/* The last instants at which something happened, newest first. */
struct history {
	vgpu_nsec at[WINDOWS_PER_MINUTE];
	uint32_t n;
};

struct reset {
	bool in_flight;
	bool strike; /* the VF's own fault */
	enum vgpu_reset_level level;
	uint32_t failures;
	vgpu_nsec started, deadline, retry_at;
};

struct vf {
	enum vgpu_vf_state state;
	enum vgpu_context context;
	bool busy;	 /* the device says that it has work */
	bool admitted;	 /* the policy has it */
	bool online;	 /* the policy knows that its driver is up */
	bool held;	 /* it has to stay away from the engine: VGPU_EV_HOLD */
	bool away;	 /* its memory is not on the GPU: VGPU_EV_AWAY */
	bool awake;	 /* the policy believes that it has work */
	bool owed_turn;	 /* it was waiting when the policy changed, and waits still */
	bool want_init;	 /* its guest asked while it could not be served */
	uint32_t scrubs; /* scrubs in flight; only the answer to the last one counts */
	struct reset reset;
	bool quarantined;	 /* until an operator resets it */
	vgpu_nsec backoff_until; /* 0: it has not been held back */
	vgpu_nsec
		waiting_since; /* since it last had work without running; VGPU_NEVER: it does not */

	/* its place in the queue for windows */
	bool queued;
	enum vgpu_window window;
	uint32_t next_queued;

	struct history windows, window_timeouts, resets, strikes;

	vgpu_nsec stops[STOPS]; /* how long its last preemptions took */
	uint32_t n_stops;
	vgpu_nsec wake_tokens_at; /* token bucket, as the instant at which it would be empty */
	vgpu_nsec surcharge;	  /* switch time laid on it, for its next account */
	vgpu_nsec instalment;	  /* of its debt, per dispatch */
	vgpu_nsec open_run;	  /* run time of the open dispatch */
	vgpu_nsec written_off;	  /* of debts above DEBT_MAX */
	struct vgpu_vf_ledger ledger;
};

/* The policy's pick, from pick() to account(). */
struct dispatch {
	bool open;
	bool orphan; /* no pick stands behind it: found running at start */
	bool lone;   /* prolonged while nobody else had work */
	uint32_t vf;
	uint32_t flags;
	uint32_t waker; /* on whose behalf it will be, or was, preempted */
	uint32_t early; /* who is to preempt it, but woke before it ran; or VGPU_NO_VF */
	enum vgpu_end reason;
	vgpu_nsec not_before, granted, late; /* as the policy has said; granted: so far */
	vgpu_nsec start, end;		     /* of the grant; set at RUN acknowledged */
	vgpu_nsec preempt_at;		     /* when to ask for IDLE */
	vgpu_nsec natural_end;		     /* before it was prolonged */
	vgpu_nsec yield_at;
};

/* Mean and mean deviation, as TCP keeps them (RFC 6298). */
struct estimate {
	vgpu_nsec mean, deviation;
};

/* What a step has found out, for its end to act on: switch_settle(). */
struct notes {
	bool go_on;  /* the engine stands still: on to the target, or to whom is chosen now */
	bool wanted; /* somebody else waits for the engine: parking ends, and what was prolonged */
	bool anew;   /* parameters have changed: whose turn it is, or until when it is nobody's,
		      * was decided without them */
	bool timer;  /* the grant that runs may have come to its end */
	uint32_t waker; /* is to preempt the VF that runs; or VGPU_NO_VF */
};

struct vgpu_core {
	struct vgpu_core_config config;
	struct vgpu_facts facts;
	struct notes notes; /* of the step in progress */
	vgpu_nsec now;
	bool started;

	enum vgpu_phase phase;
	uint32_t resident; /* the VF whose context is on the engine */
	uint32_t target;   /* the VF that the switch in progress leads to */
	bool in_window;	   /* target or resident has the engine for a window */
	vgpu_nsec window_end;
	vgpu_nsec phase_since;
	vgpu_nsec phase_deadline; /* time-out of what is in flight, or end of parking */
	vgpu_nsec switch_cost;	  /* of the switch in progress, still charged to nobody */
	vgpu_nsec load_took;	  /* of the switch in progress */
	uint32_t switch_waker;
	struct estimate save_time, start_time; /* SAVE; LOAD and RUN */

	struct dispatch d;
	uint32_t window_head, window_tail;
	uint32_t n_awake;
	vgpu_nsec aux_deadline; /* earliest end of a back-off, time-out or retry of a reset */

	uint32_t n_owed_turns;	/* VFs that the policy in force has not yet let run once */
	vgpu_nsec policy_since; /* when it took over */
	const struct vgpu_policy_ops *policy, *next_policy, *fallback;
	void *memory, *next_memory, *fallback_memory;
	int64_t params[VGPU_MAX_PARAMS], next_params[VGPU_MAX_PARAMS];
	enum vgpu_fault condemned; /* to be evicted for this at the next pick */
	enum vgpu_fault last_fault;
	char faulty[32];

	struct vgpu_engine_ledger ledger;
	struct vgpu_output *out;
	int64_t *vf_params, *next_vf_params; /* max_vfs rows of VGPU_MAX_PARAMS */
	int64_t *lags;			     /* scratch for a change of policy */
	struct vf vfs[];
};

/* output.c */
void core_act(struct vgpu_core *core, enum vgpu_action_type type, uint32_t vf, uint32_t code);
void core_record(struct vgpu_core *core, enum vgpu_record_type type, uint32_t vf, uint32_t code,
		 uint64_t a, uint64_t b);
void core_set_state(struct vgpu_core *core, uint32_t vf, enum vgpu_vf_state state);

/* ledger.c */
void ledger_advance(struct vgpu_core *core, vgpu_nsec now);
void ledger_charge_switch(struct vgpu_core *core, uint32_t vf, vgpu_nsec amount);
vgpu_nsec ledger_close(struct vgpu_core *core, struct vf *vf, bool donated, vgpu_nsec overrun);
bool history_exceeds(struct history *h, uint32_t limit, vgpu_nsec span, vgpu_nsec now);

/* policy_host.c */
void policy_host_sync(struct vgpu_core *core, uint32_t vf);
void policy_host_online(struct vgpu_core *core, uint32_t vf, bool online);
bool policy_host_pick(struct vgpu_core *core, struct vgpu_pick *pick);
void policy_host_account(struct vgpu_core *core, const struct vgpu_usage *usage);
int policy_host_add(struct vgpu_core *core, const struct vgpu_event *event);
int policy_host_set_vf(struct vgpu_core *core, const struct vgpu_event *event);
int policy_host_set_policy(struct vgpu_core *core, const struct vgpu_event *event);
int policy_host_begin_change(struct vgpu_core *core, const struct vgpu_event *event);
bool policy_host_change_is_due(const struct vgpu_core *core);
void policy_host_finish_change(struct vgpu_core *core);
void policy_host_had_turn(struct vgpu_core *core, uint32_t vf);
int policy_host_condemn(struct vgpu_core *core, uint32_t fault);
bool vf_is_runnable(const struct vf *vf);

/* window.c */
void window_enqueue(struct vgpu_core *core, uint32_t vf, enum vgpu_window window);
void window_refuse(struct vgpu_core *core, uint32_t vf, enum vgpu_window window);
/* Answers a request that came while the VF was being scrubbed, or held back. */
void window_retry(struct vgpu_core *core, uint32_t vf);
void window_cancel(struct vgpu_core *core, uint32_t vf);
bool window_waits(const struct vgpu_core *core);
/* The first that can come leaves the queue; VGPU_NO_VF if there is none. */
uint32_t window_pop(struct vgpu_core *core);
/* The VF on the engine runs, alone: lets it in, and tells it. */
void window_opened(struct vgpu_core *core);
void window_closed(struct vgpu_core *core, bool timed_out);

/* dispatch.c */
/* The policy's pick has been made; then it runs; then it is closed: one account for each pick,
 * whether it came to run or not. To close one that is not open does nothing. */
void dispatch_open(struct vgpu_core *core, const struct vgpu_pick *pick);
void dispatch_begin(struct vgpu_core *core);
void dispatch_close(struct vgpu_core *core, enum vgpu_end reason);
/* One without a pick, for a VF that was found on the engine. */
void dispatch_adopt(struct vgpu_core *core, uint32_t vf);
/* Ends the grant that runs sooner, if that is what has been noted. */
void dispatch_cut(struct vgpu_core *core);
/* Whether the policy would pick the same VF again, so that it is of no use to take the engine away
 * from it: then its grant is longer now. One that is extended like that is asked for a sign of life
 * after `lone_slice`. */
bool dispatch_prolong(struct vgpu_core *core);
/* The VF took so long to stop. What counts is the median of the last five times: one late stop in a
 * hundred does not end its next slices early, a VF that is always late is known in three. */
void dispatch_learn(struct vgpu_core *core, uint32_t vf, vgpu_nsec took);

/* ladder.c */
void ladder_hang(struct vgpu_core *core, uint32_t vf, uint64_t late);
/* The VF, in its window, has not given it back in time. */
void ladder_overstay(struct vgpu_core *core, uint32_t vf);
/* For its own fault if STRIKE. Where the VF goes when it has been scrubbed is for its earlier
 * faults, too. */
void ladder_reset(struct vgpu_core *core, uint32_t vf, bool strike);
/* Whether a reset is under way, or will be tried again: another one has no effect. */
bool ladder_is_resetting(const struct vf *vf);
/* Its guest's misdeeds are forgotten. */
void ladder_forgive(struct vf *vf);
void ladder_reset_done(struct vgpu_core *core, uint32_t vf, uint32_t level, int64_t status);
void ladder_scrub(struct vgpu_core *core, uint32_t vf);
void ladder_scrubbed(struct vgpu_core *core, uint32_t vf, int64_t status);
void ladder_timer(struct vgpu_core *core);

/* switch.c */
void switch_done(struct vgpu_core *core, uint32_t vf, enum vgpu_command command, int64_t status);
void switch_timer(struct vgpu_core *core);
/* The VF on the engine gives its window back. */
void switch_release(struct vgpu_core *core);
/* The end of each step, and the one place where it is decided who is next, that a grant ends sooner
 * than planned, and that a switch begins. */
void switch_settle(struct vgpu_core *core);

/* guest.c */
void guest_request(struct vgpu_core *core, uint32_t vf, enum vgpu_window window);
void guest_release(struct vgpu_core *core, uint32_t vf, enum vgpu_window window);
/* The function was reset from its own side, or its owner died. */
void guest_reset(struct vgpu_core *core, uint32_t vf);

static inline struct vf *core_vf(struct vgpu_core *core, uint32_t vf)
{
	return vf < core->config.max_vfs ? &core->vfs[vf] : NULL;
}

/* From now on the engine is in PHASE, with DEADLINE for what is in flight, or the end of parking.
 */
static inline void core_enter(struct vgpu_core *core, enum vgpu_phase phase, vgpu_nsec deadline)
{
	core->phase = phase;
	core->phase_since = core->now;
	core->phase_deadline = deadline;
}

static inline vgpu_nsec nsec_min(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

static inline vgpu_nsec nsec_max(vgpu_nsec a, vgpu_nsec b)
{
	return a > b ? a : b;
}

/* a - b, but never below 0 */
static inline vgpu_nsec nsec_past(vgpu_nsec a, vgpu_nsec b)
{
	return a > b ? a - b : 0;
}

static inline vgpu_nsec nsec_add(vgpu_nsec a, vgpu_nsec b)
{
	return b > VGPU_NEVER - a ? VGPU_NEVER : a + b;
}

#endif
