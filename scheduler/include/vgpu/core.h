/* SPDX-License-Identifier: MIT */
/*
 * The scheduler core: one function from events to actions, one instance per engine.
 *
 * Time is an argument. The core makes no system call, reads no clock, allocates nothing and uses
 * no floating point; it never learns what a GPU is. The daemon, the simulator and the tests wrap
 * different loops around the same step: wait until vgpu_core_deadline() or for something to
 * happen, make an event of it, step, carry out the actions in their order.
 *
 * What the core owns: the world switch with its legal order and time-outs, exclusive windows, the
 * hang ladder, clamping, the wake-up limiter, and the ledger. Who runs next is the policy's.
 *
 *                        pick                                    grant ends, less the
 *   PARKED ----------> LOAD ----> READY ----> START ----> RUN --- VF's own preemption time
 *      ^   LOAD|INIT         wait for     RUN        |            |
 *      |                     not_before              |            v
 *      +------ DROP <------ SAVE <-------------------|---------- IDLE
 *      |     SHUTDOWN       SAVE                     |           IDLE, at most `grace`
 *      |                                             v            |
 *      +------------------------------------------ RESET <--------+ hang, broken context
 *
 * Not thread-safe: one thread steps one core.
 */
#ifndef VGPU_CORE_H
#define VGPU_CORE_H

#include "vgpu/param.h"

/* What the host of a switched GPU can have it do with a VF. */
enum vgpu_command {
	VGPU_CMD_IDLE = 0, /* its work stops; its context stays on the engine */
	VGPU_CMD_SAVE,	   /* the context on the engine goes to memory */
	VGPU_CMD_LOAD,	   /* its context comes from memory */
	VGPU_CMD_INIT,	   /* it gets a new context, on the engine */
	VGPU_CMD_RUN,	   /* the context on the engine works */
	VGPU_CMD_SHUTDOWN, /* its context in memory is given up */
	VGPU_CMD_COUNT,
};

enum vgpu_reset_level {
	VGPU_RESET_ENGINE = 0, /* the VF's queues */
	VGPU_RESET_VF,	       /* the function */
	VGPU_RESET_GPU,	       /* everything: all contexts and all memory are lost */
	VGPU_RESET_COUNT,
};

/* What a VF is to the scheduler. */
enum vgpu_vf_state {
	VGPU_VF_ABSENT = 0,  /* not configured yet */
	VGPU_VF_SCRUBBING,   /* its memory is being cleared */
	VGPU_VF_AVAIL,	     /* no guest driver */
	VGPU_VF_EXCLUSIVE,   /* waits for, or is in, an exclusive window */
	VGPU_VF_ACTIVE,	     /* its driver is up: it is scheduled */
	VGPU_VF_BACKOFF,     /* was reset after a hang; its requests wait */
	VGPU_VF_QUARANTINED, /* reset too often; an operator's reset ends it */
	VGPU_VF_FAILED,	     /* its memory could not be scrubbed */
	VGPU_VF_STATE_COUNT,
};

/* The VF's context in the hardware. */
enum vgpu_context {
	VGPU_CTX_NONE = 0,
	VGPU_CTX_LOADED, /* loaded or initialised, not running */
	VGPU_CTX_RUNNING,
	VGPU_CTX_IDLED,
	VGPU_CTX_SAVED,
	VGPU_CTX_BROKEN, /* only a reset helps */
	VGPU_CTX_COUNT,
};

/* Why a guest wants the engine alone. */
enum vgpu_window {
	VGPU_WINDOW_INIT = 0,
	VGPU_WINDOW_FINI,
	VGPU_WINDOW_RESET, /* it wants its VF reset: three times a minute */
	VGPU_WINDOW_COUNT,
};

enum vgpu_event_type {
	VGPU_EV_TIMER = 0,   /* the deadline has come */
	VGPU_EV_DONE,	     /* command `code` of `vf` ended; value: 0, or how it failed */
	VGPU_EV_RESET_DONE,  /* reset level `code` of `vf` ended; value: 0 or an error */
	VGPU_EV_SCRUBBED,    /* memory of `vf` cleared; value: 0 or an error */
	VGPU_EV_BUSY,	     /* `vf` has work */
	VGPU_EV_EMPTY,	     /* `vf` has none */
	VGPU_EV_REQUEST,     /* its guest asks for window `code` */
	VGPU_EV_RELEASE,     /* its guest gives window `code` back */
	VGPU_EV_GUEST_RESET, /* the function was reset from its own side, or its owner died */
	VGPU_EV_HANG,	     /* the hardware reports that `vf` needs a reset */
	VGPU_EV_ADD,	     /* `vf` is configured; params: its parameters, for policy; code: an
			      * enum vgpu_context for one that was found in the device (adopted), with value
			      * 1 if its driver is up; else VGPU_CTX_NONE and 0: scrub first */
	VGPU_EV_SET_VF,	     /* params: new parameters of `vf`, for policy */
	VGPU_EV_SET_POLICY,  /* params: new parameters of the policy, for policy */
	VGPU_EV_POLICY,	     /* policy, memory, params; value: VF parameters per VF in vf_params */
	VGPU_EV_RESET_VF,    /* an operator resets `vf`; ends back-off and quarantine */
	VGPU_EV_START,	     /* begin to schedule */
	VGPU_EV_STOP,	     /* issue no further command; what runs goes on running */
	VGPU_EV_CONDEMN, /* the host has found the policy at fault: an enum vgpu_fault in code */
	VGPU_EV_HOLD,	 /* code 1: `vf` is to leave the engine and stay away, as if its driver were
			  * not up, so that its memory can be moved; 0: it may come back. A reset or
			  * a window of its own ends it, too */
	VGPU_EV_AWAY,	 /* code 1: the memory of `vf` leaves the GPU: nothing of it comes to the
			  * engine,    no window either, and nothing but code 0 ends that. Refused
			  * while    it is    there, or on its way */
	VGPU_EV_VIOLATION, /* the GPU has stopped `vf` from reaching out of its memory; or, code 1,
			    * found its partition overlapping another's */
	VGPU_EV_COUNT,
};

struct vgpu_event {
	vgpu_nsec now; /* never before that of the last step */
	enum vgpu_event_type type;
	uint32_t vf;
	uint32_t code;
	int64_t value;
	const int64_t *params;
	/* POLICY: the new one. ADD, SET_VF, SET_POLICY: whose tables the parameters were parsed
	 * with. Unless that is the policy to come (struct vgpu_core_view), it is -ESTALE. */
	const struct vgpu_policy_ops *policy;
	void *memory; /* zeroed, policy->memory(max_vfs) bytes; the core's until it is retired */
	const int64_t *vf_params; /* max_vfs rows of VGPU_MAX_PARAMS */
};

/* What a guest is told. */
enum vgpu_notice {
	VGPU_NOTICE_READY = 0, /* the window is yours */
	VGPU_NOTICE_RESET,     /* you are being reset */
	VGPU_NOTICE_RESET_DONE,
	VGPU_NOTICE_REFUSED,
};

/* What a VF's guest may reach of the GPU; the driver knows by what. */
enum vgpu_access {
	VGPU_ACCESS_NONE = 0,
	VGPU_ACCESS_WORK, /* what it takes to hand in work: not what sets the GPU up */
	VGPU_ACCESS_ALL,  /* in its exclusive window */
};

enum vgpu_action_type {
	VGPU_AC_COMMAND = 0, /* issue `code` for `vf`; exactly one VGPU_EV_DONE follows */
	VGPU_AC_RESET,	     /* reset level `code`; exactly one VGPU_EV_RESET_DONE follows */
	VGPU_AC_ACCESS,	     /* code: from now on, an enum vgpu_access */
	VGPU_AC_NOTICE,	     /* code: an enum vgpu_notice for the guest of `vf` */
	VGPU_AC_SCRUB,	     /* clear the memory of `vf`; exactly one VGPU_EV_SCRUBBED follows */
	VGPU_AC_RETIRE,	     /* `memory` belongs to the caller again */
};

struct vgpu_action {
	enum vgpu_action_type type;
	uint32_t vf;
	uint32_t code;
	vgpu_nsec planned; /* commands: when it was meant to be issued; 0: at once */
	void *memory;
};

/*
 * What happened, for people and for the timeline. Fixed size, no pointers.
 */
enum vgpu_record_type {
	VGPU_REC_RUN = 0, /* a: granted ns, b: planned start or 0 */
	VGPU_REC_STOP,	  /* a: used ns, b: overrun ns, code: enum vgpu_end */
	VGPU_REC_PREEMPT, /* IDLE asked for; a: planned instant */
	VGPU_REC_COMMAND, /* a command ended; code: enum vgpu_command, a: ns it took, b: status */
	VGPU_REC_PARK,	  /* nobody on the engine */
	VGPU_REC_WAKE,
	VGPU_REC_SLEEP,
	VGPU_REC_STATE,	     /* code: enum vgpu_vf_state */
	VGPU_REC_WINDOW,     /* exclusive window begins; code: enum vgpu_window */
	VGPU_REC_WINDOW_END, /* a: ns it took; b: 1 if it was ended by the time-out */
	VGPU_REC_HANG,	/* a: ns since IDLE was asked for; code: the enum vgpu_phase it was in */
	VGPU_REC_RESET, /* code: level */
	VGPU_REC_RESET_DONE, /* code: level, a: ns it took, b: status */
	VGPU_REC_REFUSED,    /* a guest's request refused; code: enum vgpu_window */
	VGPU_REC_FORGIVEN,   /* a: ns of debt written off */
	VGPU_REC_POLICY,     /* the policy changed */
	VGPU_REC_EVICTED,    /* the policy broke its contract; code: enum vgpu_fault */
	VGPU_REC_VIOLATION,  /* code: 0 an access, 1 overlapping partitions */
	VGPU_REC_COUNT,
};

struct vgpu_record {
	vgpu_nsec t;
	uint16_t type; /* enum vgpu_record_type */
	uint16_t code;
	uint32_t vf;
	uint64_t a, b;
};

/* How a policy can break its contract. */
enum vgpu_fault {
	VGPU_FAULT_NONE = 0,
	VGPU_FAULT_BAD_VF,  /* picked a VF that does not exist */
	VGPU_FAULT_NO_WORK, /* picked a VF that cannot run */
	VGPU_FAULT_ZERO_SLICE,
	VGPU_FAULT_LATE_START, /* not_before lies more than max_slice ahead */
	VGPU_FAULT_STARVED,    /* parked for ever while a VF had work, against its promise */
	VGPU_FAULT_SLOW,       /* takes too long to decide; only a host with a clock can tell */
	VGPU_FAULT_PAST_PARK,  /* parked until an instant that had come already */
	VGPU_FAULT_COUNT,
};

/* One step issues at most this much; more would be a bug, and stops the program. */
#define VGPU_MAX_ACTIONS 160u
#define VGPU_MAX_RECORDS 224u

struct vgpu_output {
	uint32_t n_actions, n_records;
	struct vgpu_action actions[VGPU_MAX_ACTIONS];
	struct vgpu_record records[VGPU_MAX_RECORDS];
	const char *why; /* the reason, when the step has refused the event; constant text */
};

/* Where a VF's time went. Every nanosecond of the engine is in exactly one of these or of
 * struct vgpu_engine_ledger. */
struct vgpu_vf_ledger {
	vgpu_nsec run_ns;     /* RUN acknowledged to IDLE acknowledged, in its own right */
	vgpu_nsec donated_ns; /* the same, in another VF's slot */
	vgpu_nsec
		switch_ns; /* switch time laid on it: long saves, and switches forced by its wake */
	vgpu_nsec exclusive_ns; /* its windows */
	vgpu_nsec reset_ns;	/* its resets */
	/* What was charged as share. At every step
	 *   run + switch + debt_charged == charged + forgiven + pending, and
	 *   exclusive + reset == debt_charged + debt + written_off. */
	vgpu_nsec charged_ns;
	vgpu_nsec forgiven_ns;
	vgpu_nsec debt_ns;	   /* of windows and resets, being charged in instalments */
	vgpu_nsec debt_charged_ns; /* of windows and resets, charged so far */
	vgpu_nsec overrun_ns;	   /* the part of run_ns beyond the grants */
	vgpu_nsec max_overrun_ns;
	vgpu_nsec preempt_ns; /* the estimate of its preemption time */
	vgpu_nsec wait_max_ns;
	vgpu_nsec wait_ns; /* from having work to running, summed over `dispatches` */
	uint64_t dispatches, wakes, preempted, ends[VGPU_END_COUNT];
	uint64_t hangs, windows, window_timeouts, refused, resets, guest_resets, clamped,
		violations;
};

struct vgpu_engine_ledger {
	vgpu_nsec wall_ns;   /* since the core began */
	vgpu_nsec switch_ns; /* world switches, charged to nobody */
	vgpu_nsec idle_ns;   /* nobody was on the engine, or it was held for a planned start */
	uint64_t switches, stale_answers, clamped, evictions, wake_limited;
};

struct vgpu_core_config {
	uint32_t max_vfs;
	uint32_t reset_levels; /* bit n: the GPU can do enum vgpu_reset_level n */
	bool gpu_reset;	       /* whether the ladder may climb to VGPU_RESET_GPU */
	bool ask_at_end; /* ask for IDLE at the end of a grant, not early: as others do, to compare
			  */
	vgpu_nsec min_slice, max_slice;
	vgpu_nsec grace;      /* from asking for IDLE to declaring a hang */
	vgpu_nsec idle_grace; /* a VF without work keeps the engine this long */
	vgpu_nsec lone_slice; /* liveness probe of a VF that nobody else contends with */
	vgpu_nsec min_run;    /* protection from preemption by waking VFs */
	vgpu_nsec window_max; /* an exclusive window */
	vgpu_nsec debt_cap;   /* the most that one dispatch is charged beyond its grant */
	vgpu_nsec command_timeout[VGPU_CMD_COUNT]; /* IDLE's is `grace` */
	vgpu_nsec reset_timeout[VGPU_RESET_COUNT];
	vgpu_nsec switch_nominal; /* first guess of the world switch; then it is measured */
};

/* The defaults, with their sources, for `max_vfs` VFs. */
void vgpu_core_defaults(struct vgpu_core_config *config, uint32_t max_vfs);

struct vgpu_core;

/* Bytes of memory that vgpu_core_init needs for a core of max_vfs VFs. */
size_t vgpu_core_size(uint32_t max_vfs);

/*
 * Makes a core in MEMORY (the caller's, zeroed, vgpu_core_size bytes, aligned as by malloc) at
 * instant NOW. It starts stopped, without VFs, under FALLBACK, the policy that also takes over
 * from a faulty one; FALLBACK_MEMORY is as in struct vgpu_event, and is never retired. Cannot
 * fail.
 */
struct vgpu_core *vgpu_core_init(void *memory, const struct vgpu_core_config *config,
				 const struct vgpu_policy_ops *fallback, void *fallback_memory,
				 vgpu_nsec now);

/*
 * Applies one event. Returns 0; -EINVAL, -EBUSY, or -ESTALE for parameters of another policy, if
 * the event was refused, with out->why set and nothing changed. Late or stale answers of the device
 * are counted and dropped. Never blocks.
 */
int vgpu_core_step(struct vgpu_core *core, const struct vgpu_event *event, struct vgpu_output *out);

/* When VGPU_EV_TIMER is due at the latest; VGPU_NEVER if nothing is pending. */
vgpu_nsec vgpu_core_deadline(const struct vgpu_core *core);

/*
 * Whether VGPU_EV_TIMER at NOW would find somebody late: the device with the answer to a command or
 * a reset, a guest with the end of its window. The answer may have come while the caller did not
 * run, so it looks at the device, and steps what it finds there, before it sends that event.
 */
bool vgpu_core_is_overdue(const struct vgpu_core *core, vgpu_nsec now);

/* A VF as of the last step. */
struct vgpu_vf_view {
	enum vgpu_vf_state state;
	enum vgpu_context context;
	bool has_work, held, away;
	bool admitted;	       /* the policy has it */
	bool on_engine, comes; /* it is there; it is on its way */
	vgpu_nsec backoff_until;
	struct vgpu_vf_ledger ledger;
	vgpu_nsec pending_ns;	  /* run and switch time that its next account will charge */
	vgpu_nsec written_off_ns; /* debts of windows and resets above what may be owed */
	uint64_t share_numerator, share_denominator;
	struct vgpu_bound bound;
	int64_t lag_ns;
	/* as the policy in force has them; as the next one will, if there is a next one. Of a VF
	 * that the policy does not have: 0 */
	int64_t params[VGPU_MAX_PARAMS], next_params[VGPU_MAX_PARAMS];
};

/* The core is the owner of which policy is in force and with which parameters; others have it from
 * here. The policy to come, which new parameters are for, is next_policy, or policy if there is no
 * next. */
struct vgpu_core_view {
	bool started;
	uint32_t current; /* the VF on the engine, or VGPU_NO_VF */
	uint32_t phase;	  /* enum vgpu_phase */
	const struct vgpu_policy_ops *policy;
	const struct vgpu_policy_ops *next_policy; /* that takes over at the next switch, or NULL */
	int64_t params[VGPU_MAX_PARAMS],
		next_params[VGPU_MAX_PARAMS]; /* of either, if it is there */
	const struct vgpu_policy_ops *fallback;
	enum vgpu_fault last_fault;
	char faulty[32]; /* the policy that was evicted last, or "" */
	struct vgpu_facts facts;
	struct vgpu_engine_ledger engine;
};

enum vgpu_phase {
	VGPU_PHASE_PARKED = 0,
	VGPU_PHASE_LOAD,  /* LOAD or INIT is in flight */
	VGPU_PHASE_READY, /* loaded, waiting for the planned start */
	VGPU_PHASE_START, /* RUN is in flight */
	VGPU_PHASE_RUN,
	VGPU_PHASE_IDLE, /* IDLE is in flight */
	VGPU_PHASE_SAVE,
	VGPU_PHASE_DROP, /* SHUTDOWN is in flight */
	VGPU_PHASE_RESET,
	VGPU_PHASE_COUNT,
};

void vgpu_core_view(const struct vgpu_core *core, struct vgpu_core_view *out);
void vgpu_core_vf_view(const struct vgpu_core *core, uint32_t vf, struct vgpu_vf_view *out);

/*
 * The memory of a core has been copied back to the address at which it was, perhaps in another
 * process, with that of its policies: names their operations again. NEXT may be NULL.
 */
void vgpu_core_rebind(struct vgpu_core *core, const struct vgpu_policy_ops *policy,
		      const struct vgpu_policy_ops *next, const struct vgpu_policy_ops *fallback);

/* What the policy warns of, or NULL; valid until the next step. */
const char *vgpu_core_warning(const struct vgpu_core *core);

/* Names for messages: one table for every program. */
extern const char *const vgpu_command_names[VGPU_CMD_COUNT];
extern const char *const vgpu_vf_state_names[VGPU_VF_STATE_COUNT];
extern const char *const vgpu_context_names[VGPU_CTX_COUNT];
extern const char *const vgpu_end_names[VGPU_END_COUNT];
extern const char *const vgpu_record_names[VGPU_REC_COUNT];
extern const char *const vgpu_phase_names[VGPU_PHASE_COUNT];
extern const char *const vgpu_reset_names[VGPU_RESET_COUNT];
const char *vgpu_fault_text(enum vgpu_fault fault);

#endif
