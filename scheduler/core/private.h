/* SPDX-License-Identifier: MIT */
/*
 * The inside of the core. Each file has one idea, and calls only files below it in this list
 * (tests/lint checks that):
 *
 *   step.c         turns events into calls; each step ends in one decision
 *   guest.c        requests of guests
 *   switch.c       the world switch, and that decision: where the engine goes
 *   ladder.c       resets, and how they escalate
 *   dispatch.c     the grant that is open
 *   window.c       the queue for exclusive windows
 *   policy_host.c  the policy and its limits
 *   ledger.c       accounts of the engine's time
 *   output.c       states of VFs, whose changes are records
 *
 * A file that would have to call upwards leaves a note (struct notes) for the end of the step
 * instead.
 */
#pragma once

#include <assert.h>

#include "vgpu/core.h"
#include "vgpu/lag.h"
#include "vgpu/reset.h"

/* Limits against abuse. The numbers are AMD's (libgv amdgv_guard.h), except for hangs and faults,
 * which are our choice: a third hang in a minute ends in quarantine, because other VFs had to wait;
 * a fault costs only the VF itself, and ends in a back-off of a few seconds at most. */
#define RESETS_PER_MINUTE 3u
#define WINDOW_TIMEOUTS 2u
#define WINDOW_TIMEOUT_SPAN (500 * VGPU_SEC)
#define STRIKES 3u
#define FAULTS 4u
#define STRIKE_SPAN (60 * VGPU_SEC)
#define BACKOFF_FIRST (1 * VGPU_SEC)

/* Time of windows and resets is charged in this many instalments. A VF owes at most DEBT_MAX, or
 * the credit plus the longest window if that is more. */
#define DEBT_TURNS 60u
#define DEBT_MAX (2 * VGPU_SEC)

/* A VF that owes more than WINDOW_CREDIT gets no window. The credit is for a guest that restarts:
 * two windows of the usual length. Each VF gets at least LEAST_SHARE of the time for windows, so
 * that its driver loads within minutes. */
#define WINDOW_CREDIT (500 * VGPU_MSEC)
#define LEAST_SHARE 1000000u /* billionths */

/* Under a policy where charges do not pay for windows, the windows of all VFs take at most this
 * part of the time. */
#define PART_UNCHARGED 8u

/* Between two windows each waiting VF gets a turn. If none has got one for this long, the next
 * window is granted anyway: the policy may let a VF wait for ever. */
#define ROUND_STALLS VGPU_SEC

/* Limit on preemptions by a VF's wake-ups: 200 times a second, so that the shortest period of a
 * guarantee, 5 ms, is never limited; up to 10 at once. */
#define WAKE_BURST 10u
#define WAKE_REFILL (5 * VGPU_MSEC)

/* Limit on starts and stops of a guest driver: ten times a second, so that a suite of short
 * programs is not delayed. The time that others lose by a window is charged (LEAST_SHARE); this
 * limits vgpud's work. */
#define WINDOW_BURST 40u
#define WINDOW_REFILL (100 * VGPU_MSEC)

/* A new policy stays in force until every VF that was waiting has run once or has no more work, but
 * no longer than this, so that a policy that lets a VF wait for ever can be replaced. */
#define POLICY_STAYS VGPU_SEC

/* Lateness of a stop that counts as noise. */
#define LATE_LEAST (250 * VGPU_USEC)

/* A VF that slept within this time may run out of work before it has made up for a delay. */
#define SLEEPS_OFTEN (100 * VGPU_MSEC)

/* Number of preemption times in the median: two outliers in a row do not change it. */
#define STOPS 5u

#define HISTORY 4u

/* The last instants at which an event of one kind happened, oldest first. */
struct history {
	vgpu_nsec at[HISTORY];
	uint32_t n;
};

struct vf {
	enum vgpu_vf_state state;
	enum vgpu_context context;
	bool busy;	 /* the device reports work */
	bool admitted;	 /* the policy has admitted it */
	bool online;	 /* the policy knows that the guest driver is up */
	bool held;	 /* it must stay off the engine: VGPU_EV_HOLD */
	bool away;	 /* its memory is not on the GPU: VGPU_EV_AWAY */
	bool incoming;	 /* its VM has not resumed yet: VGPU_EV_INCOMING */
	bool awake;	 /* the policy knows that the VF has work */
	bool owed_turn;	 /* it has waited since the last change of policy */
	bool owed_round; /* it has waited since the last exclusive window ended */
	bool want_init;	 /* its guest requested an INIT window that could not be granted yet */
	uint32_t scrubs; /* scrubs in flight; only the answer to the last one counts */
	struct vgpu_reset reset;
	bool reset_comes;	     /* its reset waits for the end of a command */
	enum vgpu_blame reset_blame; /* the cause of that reset */
	bool quarantined;	     /* until an operator resets the VF */
	vgpu_nsec backoff_until;     /* 0: no back-off */
	vgpu_nsec slept; /* when it went to sleep, or its turn ended for lack of work, last */
	vgpu_nsec waiting_since; /* since when it waits for the engine, with work; VGPU_NEVER: it
				    does not wait */

	/* its place in the queue for exclusive windows */
	bool queued;
	enum vgpu_window window;
	uint32_t next_queued;

	struct history window_timeouts, resets, strikes, faults;

	/* The last preemption times. Before there are five, the missing ones are 0 and VGPU_NEVER
	 * by turns, so that the median is that of the others; of two the larger one. */
	vgpu_nsec stops[STOPS];
	uint32_t n_stops;
	/* Token buckets, each as the instant at which it would be full. */
	vgpu_nsec wake_tokens_at, window_tokens_at;
	vgpu_nsec surcharge;   /* switch time that the VF's next account charges */
	vgpu_nsec instalment;  /* the part of its debt that each dispatch pays */
	vgpu_nsec paid_until;  /* time has paid the debt up to this instant; see ledger_lapses() */
	uint32_t share;	       /* its share of the time, in billionths */
	vgpu_nsec open_run;    /* run time of the open dispatch */
	vgpu_nsec written_off; /* window and reset time above DEBT_MAX, not charged */
	struct vgpu_vf_ledger ledger;
};

/* A dispatch: the policy's pick, from pick() to account(). */
struct dispatch {
	bool open;
	bool orphan; /* not picked: the VF was running when scheduling started */
	bool lone;   /* prolonged while no other VF had work */
	bool anew;   /* parameters have changed since the pick */
	uint32_t vf;
	uint32_t flags;
	uint32_t waker; /* the VF whose wake-up preempts this one */
	uint32_t early; /* the VF that woke before this one ran and is to preempt it; or VGPU_NO_VF
			 */
	enum vgpu_end reason;
	vgpu_nsec not_before, granted, late; /* from the pick; granted: with extensions so far */
	vgpu_nsec start, end;		     /* of the grant; set when RUN is acknowledged */
	vgpu_nsec preempt_at;		     /* when to issue IDLE */
	vgpu_nsec natural_end;		     /* end of the grant before it was prolonged */
	vgpu_nsec idle_grace;		     /* from the pick */
	vgpu_nsec yield_at;
	vgpu_nsec kept_end; /* value of END if the VF answers VGPU_HAS_WORK to IDLE; 0: IDLE is
			       unconditional */
};

/* Mean and mean deviation, as TCP keeps them (RFC 6298). */
struct estimate {
	vgpu_nsec mean, deviation;
};

/* Findings of a step, on which its end acts: switch_settle(). */
struct notes {
	bool go_on;  /* no VF runs: go to the target, or choose one */
	bool wanted; /* another VF waits for the engine: end parking and prolonged grants */
	bool anew;   /* parameters have changed since the running grant, or the parking, was decided
		      */
	bool timer;  /* the running grant may have reached its end */
	uint32_t waker; /* the VF that is to preempt the running one; or VGPU_NO_VF */
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
	bool in_window;	   /* the target or resident has an exclusive window */
	vgpu_nsec window_end;
	vgpu_nsec phase_since;
	vgpu_nsec phase_deadline; /* time-out of the command in flight, or end of parking */
	uint32_t ahead; /* commands of the switch in progress that were issued with the last one */
	vgpu_nsec switch_cost; /* cost of the switch in progress that is not charged to a VF yet */
	vgpu_nsec load_took;   /* duration of the LOAD of the switch in progress */
	uint32_t switch_waker;
	struct estimate save_time, start_time; /* SAVE; LOAD and RUN */

	struct dispatch d;
	bool charges_pay; /* charges pay for windows and resets under this policy: see
			     ledger_share_out() */
	uint32_t window_head, window_tail;
	bool had_window;	   /* a window was granted since the last round began */
	uint32_t n_owed_round;	   /* VFs with owed_round set */
	vgpu_nsec round_stalls_at; /* when the next window stops waiting for the round */
	vgpu_nsec window_deadline; /* when to check for a window that is due */
	uint32_t n_awake;
	vgpu_nsec aux_deadline; /* earliest end of a back-off, time-out or retry of a reset */

	uint32_t n_owed_turns;	/* VFs with owed_turn set */
	vgpu_nsec policy_since; /* when the policy took over */
	const struct vgpu_policy_ops *policy, *next_policy, *fallback;
	void *memory, *next_memory, *fallback_memory;
	int64_t params[VGPU_MAX_PARAMS], next_params[VGPU_MAX_PARAMS];
	enum vgpu_fault condemned; /* evict the policy for this fault at the next pick */
	enum vgpu_fault last_fault;
	char faulty[32];

	struct vgpu_engine_ledger ledger;
	struct vgpu_output *out;
	int64_t *vf_params, *next_vf_params; /* max_vfs rows of VGPU_MAX_PARAMS */
	int64_t *lags;			     /* scratch for a change of policy */
	struct vf vfs[];
};

/* output.c */
void core_set_state(struct vgpu_core *core, uint32_t vf, enum vgpu_vf_state state);

/* ledger.c */
void ledger_advance(struct vgpu_core *core, vgpu_nsec now);
void ledger_charge_switch(struct vgpu_core *core, uint32_t vf, vgpu_nsec amount);
vgpu_nsec ledger_close(struct vgpu_core *core, struct vf *vf, bool donated, vgpu_nsec overrun,
		       vgpu_nsec fine);
vgpu_nsec ledger_lapses(const struct vgpu_core *core, const struct vf *vf);
/* Adds the debt AMOUNT of a VF that comes from another host. */
void ledger_bring(struct vgpu_core *core, struct vf *vf, vgpu_nsec amount);
void ledger_pay(struct vgpu_core *core, struct vf *vf);
void ledger_share_out(struct vgpu_core *core);
vgpu_nsec ledger_credit_at(struct vgpu_core *core, struct vf *vf);
bool history_exceeds(struct history *h, uint32_t limit, vgpu_nsec span, vgpu_nsec now);
/* Takes a token from the bucket FULL_AT, which holds BURST and gets one per REFILL; false: it is
 * empty. */
bool bucket_take(vgpu_nsec *full_at, uint32_t burst, vgpu_nsec refill, vgpu_nsec now);

/* policy_host.c */
void policy_host_sync(struct vgpu_core *core, uint32_t vf);
void policy_host_drained(struct vgpu_core *core, uint32_t index);
void policy_host_online(struct vgpu_core *core, uint32_t vf, bool online);
bool policy_host_pick(struct vgpu_core *core, struct vgpu_pick *pick);
void policy_host_account(struct vgpu_core *core, const struct vgpu_usage *usage);
int policy_host_add(struct vgpu_core *core, const struct vgpu_event *event);
int policy_host_set_vf(struct vgpu_core *core, const struct vgpu_event *event);
int policy_host_set_policy(struct vgpu_core *core, const struct vgpu_event *event);
int policy_host_begin_change(struct vgpu_core *core, const struct vgpu_event *event);
/* Returns whether a new policy waits and may take over. */
bool policy_host_change_is_due(const struct vgpu_core *core);
void policy_host_finish_change(struct vgpu_core *core);
/* The VF has run, or has no more work. */
void policy_host_had_turn(struct vgpu_core *core, uint32_t vf);
int policy_host_condemn(struct vgpu_core *core, uint32_t fault);

/* window.c */
void window_enqueue(struct vgpu_core *core, uint32_t vf, enum vgpu_window window);
void window_refuse(struct vgpu_core *core, uint32_t vf, enum vgpu_window window);
/* Grants or refuses a request that came while the VF was being scrubbed, or in back-off. */
void window_retry(struct vgpu_core *core, uint32_t vf);
void window_cancel(struct vgpu_core *core, uint32_t vf);
/* Returns whether a VF has the credit for its window, and waits for the engine or the end of the
 * round. */
bool window_waits(struct vgpu_core *core);
/* Returns whether a window is to be granted now. */
bool window_is_due(struct vgpu_core *core);
/* While no VF runs: removes the VF whose window is due from the queue and returns it; VGPU_NO_VF if
 * there is none. A round begins when a window has ended. */
uint32_t window_pop(struct vgpu_core *core);
void window_timer(struct vgpu_core *core);
/* The VF on the engine runs, alone: opens its access and notifies its guest. */
void window_opened(struct vgpu_core *core);
void window_closed(struct vgpu_core *core, bool timed_out);

/* dispatch.c */
/* Opens a dispatch for a pick; begins it when the VF runs; closes it, with one account for each
 * pick, whether the VF ran or not. Closing when none is open does nothing. */
void dispatch_open(struct vgpu_core *core, const struct vgpu_pick *pick);
void dispatch_begin(struct vgpu_core *core);
void dispatch_close(struct vgpu_core *core, enum vgpu_end reason);
/* Opens a dispatch without a pick, for a VF that was found on the engine. */
void dispatch_adopt(struct vgpu_core *core, uint32_t vf);
/* Ends the running grant sooner if the notes ask for that. */
void dispatch_cut(struct vgpu_core *core);
/* Extends the running grant if the policy would pick the same VF again, and returns whether it did.
 * A grant is extended up to `lone_slice`, after which the VF is stopped to check that it
 * responds. */
bool dispatch_prolong(struct vgpu_core *core);
/* Records how long the VF took to stop. The median of the last five times counts: one late stop in
 * a hundred does not shorten the next slices, and a VF that is always late is recognised after
 * three. */
void dispatch_learn(struct vgpu_core *core, uint32_t vf, vgpu_nsec took);

/* ladder.c */
/* The VF on the engine has not carried out the command of this phase, or not in time. */
void ladder_hang(struct vgpu_core *core);
/* The GPU reports a VF's fault, which the core may know already. STUCK: the GPU will not answer the
 * VF's command. */
void ladder_fault(struct vgpu_core *core, uint32_t vf, bool stuck);
/* The VF has kept its exclusive window beyond the time-out. ALONE: no other VF waited for it, which
 * holds the VF back like a fault, and never leads to quarantine. */
void ladder_overstay(struct vgpu_core *core, uint32_t vf, bool alone);
/* Resets a VF for the cause BLAME. The state that the VF enters after its scrub also depends on its
 * earlier faults. While the GPU has commands of a switch ahead of it, a reset of the VF that is
 * being loaded waits until it is on the engine, and one of the VF that is being saved until it is
 * off it. */
void ladder_reset(struct vgpu_core *core, uint32_t vf, enum vgpu_blame blame);
/* Resets a VF whose reset had to wait (reset_comes). */
void ladder_catch_up(struct vgpu_core *core, uint32_t vf);
/* Returns whether a reset is in progress, or will be repeated; another one then has no effect. */
bool ladder_is_resetting(const struct vf *vf);
/* Forgets the VF's faults: ends back-off and quarantine. */
void ladder_forgive(struct vf *vf);
void ladder_reset_done(struct vgpu_core *core, uint32_t vf, uint32_t level, int64_t status);
void ladder_scrub(struct vgpu_core *core, uint32_t vf);
void ladder_scrubbed(struct vgpu_core *core, uint32_t vf, int64_t status);
void ladder_timer(struct vgpu_core *core);

/* switch.c */
void switch_done(struct vgpu_core *core, uint32_t vf, enum vgpu_command command, int64_t status);
void switch_timer(struct vgpu_core *core);
/* The VF on the engine has given its exclusive window back. */
void switch_release(struct vgpu_core *core);
/* Ends each step. The only place that decides which VF is next, that a grant ends sooner than
 * planned, and that a switch begins. */
void switch_settle(struct vgpu_core *core);

/* guest.c */
void guest_request(struct vgpu_core *core, uint32_t vf, enum vgpu_window window);
void guest_release(struct vgpu_core *core, uint32_t vf, enum vgpu_window window);
/* The guest's side has reset the function, or the tenant died. */
void guest_reset(struct vgpu_core *core, uint32_t vf);

/* Returns whether the VF must not be loaded, whatever it or its guest does. */
static inline bool vf_is_out(const struct vf *vf)
{
	return vf->away || vf->incoming;
}

/* Add an action or a record to the step's output. Inline, because each world switch has a dozen. */
static inline void core_act(struct vgpu_core *core, enum vgpu_action_type type, uint32_t vf,
			    uint32_t code)
{
	assert(core->out->n_actions < VGPU_MAX_ACTIONS);
	core->out->actions[core->out->n_actions++] =
		(struct vgpu_action){.type = type, .vf = vf, .code = code};
}

static inline void core_record(struct vgpu_core *core, enum vgpu_record_type type, uint32_t vf,
			       uint32_t code, uint64_t a, uint64_t b)
{
	assert(core->out->n_records < VGPU_MAX_RECORDS);
	core->out->records[core->out->n_records++] = (struct vgpu_record){
		.t = core->now,
		.type = (uint16_t)type,
		.code = (uint16_t)code,
		.vf = vf,
		.a = a,
		.b = b,
	};
}

static inline struct vf *core_vf(struct vgpu_core *core, uint32_t vf)
{
	return vf < core->config.max_vfs ? &core->vfs[vf] : NULL;
}

/* Enters PHASE. DEADLINE: time-out of the command in flight, or end of parking. */
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

/* Predicates for each step. */

static inline bool vf_is_runnable(const struct vf *vf)
{
	return vf->state == VGPU_VF_ACTIVE && vf->online && vf->busy;
}

/* How long the VF has been waiting with work; 0: it has none, or runs. */
static inline vgpu_nsec ledger_waits(const struct vgpu_core *core, const struct vf *vf)
{
	return nsec_past(core->now, vf->waiting_since);
}

static inline vgpu_nsec nsec_add(vgpu_nsec a, vgpu_nsec b)
{
	return b > VGPU_NEVER - a ? VGPU_NEVER : a + b;
}
