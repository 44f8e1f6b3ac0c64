/* SPDX-License-Identifier: MIT */
/*
 * The scheduler core: one function from events to actions, one instance per engine.
 *
 * Time is an argument. The core makes no system call, reads no clock, allocates nothing and uses
 * no floating point; it never learns what a GPU is. The daemon, the simulator and the tests wrap
 * different loops around the same step: wait until vgpu_core_deadline() or until something
 * happens, turn that into an event, step the core, carry out the actions in order.
 *
 * The core owns the world switch with its legal order and time-outs, exclusive windows, the hang
 * ladder, clamping, the wake-up limiter, and the ledger. The policy decides which VF runs next.
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
#pragma once

#include "vgpu/param.h"

/* The commands with which a host switches a GPU between VFs. Each names one VF. */
enum vgpu_command {
	VGPU_CMD_IDLE = 0, /* stop the VF's work; its context stays on the engine */
	VGPU_CMD_SAVE,	   /* save the context on the engine to memory */
	VGPU_CMD_LOAD,	   /* load the VF's context from memory */
	VGPU_CMD_INIT,	   /* create a new context for the VF, on the engine */
	VGPU_CMD_RUN,	   /* let the context on the engine work */
	VGPU_CMD_SHUTDOWN, /* discard the VF's saved context */
	VGPU_CMD_COUNT,
};

enum vgpu_reset_level {
	VGPU_RESET_ENGINE = 0, /* resets the VF's queues */
	VGPU_RESET_VF,	       /* resets the function */
	VGPU_RESET_GPU,	       /* resets the GPU: all contexts and all memory are lost */
	VGPU_RESET_COUNT,
};

/* The scheduling state of a VF. */
enum vgpu_vf_state {
	VGPU_VF_ABSENT = 0,  /* not configured yet */
	VGPU_VF_SCRUBBING,   /* vgpud clears its memory */
	VGPU_VF_AVAIL,	     /* no guest driver */
	VGPU_VF_EXCLUSIVE,   /* it waits for an exclusive window, or is in one */
	VGPU_VF_ACTIVE,	     /* its guest driver is up: the VF is scheduled */
	VGPU_VF_BACKOFF,     /* it was reset after a hang; requests of its guest wait */
	VGPU_VF_QUARANTINED, /* it was reset too often; only a reset by an operator ends this state
			      */
	VGPU_VF_FAILED,	     /* scrubbing its memory failed */
	VGPU_VF_STATE_COUNT,
};

/* The VF's context in the hardware. */
enum vgpu_context {
	VGPU_CTX_NONE = 0,
	VGPU_CTX_LOADED, /* loaded or initialised, not running */
	VGPU_CTX_RUNNING,
	VGPU_CTX_IDLED,
	VGPU_CTX_SAVED,
	VGPU_CTX_BROKEN, /* unusable until the VF is reset */
	VGPU_CTX_COUNT,
};

/* The reasons for which a guest requests an exclusive window. */
enum vgpu_window {
	VGPU_WINDOW_INIT = 0, /* the guest driver starts */
	VGPU_WINDOW_FINI,     /* the guest driver stops */
	VGPU_WINDOW_RESET,    /* the guest requests a reset of its VF; granted at most three times a
				 minute */
	VGPU_WINDOW_COUNT,
};

/* The violations that a GPU or the kernel's driver reports for a VF. */
enum vgpu_violation {
	VGPU_VIOLATION_ACCESS = 0, /* the GPU has blocked an access outside the VF's partition */
	VGPU_VIOLATION_OVERLAP,	   /* the VF's partition overlaps another one: an error of vgpud */
	/* What the kernel's driver counts for its processes: they compute while their gate is shut;
	 * or they cannot be looked at. */
	VGPU_VIOLATION_GATE,
	VGPU_VIOLATION_HIDES,
	VGPU_VIOLATION_COUNT,
};

enum vgpu_event_type {
	VGPU_EV_TIMER = 0,   /* the deadline has come */
	VGPU_EV_DONE,	     /* command `code` for `vf` ended; value: 0, or how it failed, or
			      * VGPU_HAS_WORK */
	VGPU_EV_RESET_DONE,  /* reset level `code` of `vf` ended; value: 0 or an error */
	VGPU_EV_SCRUBBED,    /* the memory of `vf` is cleared; value: 0 or an error */
	VGPU_EV_BUSY,	     /* `vf` has work */
	VGPU_EV_EMPTY,	     /* `vf` has no work */
	VGPU_EV_REQUEST,     /* the guest of `vf` asks for window `code` */
	VGPU_EV_RELEASE,     /* the guest of `vf` gives window `code` back */
	VGPU_EV_GUEST_RESET, /* the guest's side has reset the function, or the tenant died */
	VGPU_EV_HANG, /* the GPU reports that `vf` needs a reset; code 1: a command of the core is
			 in flight */
	VGPU_EV_ADD, /* `vf` is configured; params: its parameters, for `policy`. For an adopted VF,
			code: its enum vgpu_context, value: 1 if its guest driver is up. For a new
			VF, VGPU_CTX_NONE and 0: the core has it scrubbed first */
	VGPU_EV_SET_VF,	    /* params: new parameters of `vf`, for `policy` */
	VGPU_EV_SET_POLICY, /* params: new parameters of the policy itself, for `policy` */
	VGPU_EV_POLICY, /* replace the policy by `policy`, with its memory, params and vf_params */
	VGPU_EV_RESET_VF, /* an operator resets `vf`; ends back-off and quarantine */
	VGPU_EV_START,	  /* begin to schedule */
	VGPU_EV_STOP,	  /* issue no further command; a running VF keeps running */
	VGPU_EV_CONDEMN,  /* the host has found the policy at fault; code: enum vgpu_fault */
	VGPU_EV_HOLD, /* code 1: `vf` leaves the engine and stays off it, as if its driver were not
			 up, so that its memory can be moved. Code 0, a reset or an exclusive window
			 of `vf` ends the hold */
	VGPU_EV_AWAY, /* code 1: the memory of `vf` leaves the GPU. The core does not load the VF,
			 not even for an exclusive window, until code 0. Refused while `vf` is on
			 the engine or is being loaded */
	VGPU_EV_VIOLATION, /* code: enum vgpu_violation */
	VGPU_EV_INCOMING,  /* code 1: the VM of `vf` migrates to this host and has not resumed yet.
			      The core does not load the VF, not even for an exclusive window, until
			      code 0. Its value is the VF's debt from the other host, in ns; capped
			      at the largest debt. Code 1 is refused while `vf` is on the engine or
			      is being loaded */
	VGPU_EV_COUNT,
};

struct vgpu_event {
	vgpu_nsec now; /* not earlier than in the last step */
	enum vgpu_event_type type;
	uint32_t vf;
	uint32_t code;
	int64_t value;
	const int64_t *params;
	/* POLICY: the new policy. ADD, SET_VF, SET_POLICY: the policy whose tables were used to
	 * parse the parameters. The core answers -ESTALE unless that is the policy to come (struct
	 * vgpu_core_view). */
	const struct vgpu_policy_ops *policy;
	/* Zeroed, policy->memory(max_vfs) bytes; owned by the core until VGPU_AC_RETIRE. */
	void *memory;
	const int64_t *vf_params; /* max_vfs rows of VGPU_MAX_PARAMS */
};

/* Notices that the host sends to a guest. */
enum vgpu_notice {
	VGPU_NOTICE_READY = 0,	/* the guest's exclusive window has begun */
	VGPU_NOTICE_RESET,	/* a reset of the guest's VF has begun */
	VGPU_NOTICE_RESET_DONE, /* the reset of the guest's VF is done */
	VGPU_NOTICE_REFUSED,	/* the guest's request was refused */
};

/* The registers of the GPU that a guest may reach. The driver maps this to the GPU's gates. */
enum vgpu_access {
	VGPU_ACCESS_NONE = 0,
	VGPU_ACCESS_WORK, /* the registers that submit work, not the ones that configure the GPU */
	VGPU_ACCESS_ALL,  /* all registers, during an exclusive window */
};

enum vgpu_action_type {
	/* Issue `code` for `vf`; exactly one VGPU_EV_DONE follows. The commands of one step run in
	 * order, each after the one before it has succeeded; a failure or a reset of the VF drops
	 * the rest. */
	VGPU_AC_COMMAND = 0,
	VGPU_AC_RESET,	/* reset level `code`; exactly one VGPU_EV_RESET_DONE follows */
	VGPU_AC_ACCESS, /* give the guest of `vf` access `code`, an enum vgpu_access */
	VGPU_AC_NOTICE, /* send the guest of `vf` notice `code`, an enum vgpu_notice */
	VGPU_AC_SCRUB,	/* clear the memory of `vf`; exactly one VGPU_EV_SCRUBBED follows */
	VGPU_AC_RETIRE, /* the caller owns `memory` again */
};

/* The answer to IDLE with `unless_busy`: the VF has work and continues to execute it. */
#define VGPU_HAS_WORK (-1)

struct vgpu_action {
	enum vgpu_action_type type;
	uint32_t vf;
	uint32_t code;
	bool unless_busy;  /* IDLE: no other VF waits, so the GPU may answer VGPU_HAS_WORK if the VF
			      has new work */
	vgpu_nsec planned; /* commands: the instant at which the command is due; 0: at once */
	void *memory;
};

/*
 * A record of one thing that happened, for the log, statistics and the timeline. Fixed size, no
 * pointers.
 */
enum vgpu_record_type {
	VGPU_REC_RUN = 0, /* a: granted ns, b: planned start or 0 */
	VGPU_REC_STOP,	  /* a: used ns, b: overrun ns, code: enum vgpu_end */
	VGPU_REC_PREEMPT, /* IDLE was issued; a: the instant at which that was planned */
	VGPU_REC_COMMAND, /* a command ended; code: enum vgpu_command, a: ns it took, b: status */
	VGPU_REC_PARK,	  /* the engine is parked: no VF is on it */
	VGPU_REC_WAKE,	  /* the VF has work */
	VGPU_REC_SLEEP,	  /* the VF has run out of work */
	VGPU_REC_STATE,	  /* code: enum vgpu_vf_state */
	VGPU_REC_WINDOW,  /* an exclusive window begins; code: enum vgpu_window */
	VGPU_REC_WINDOW_END, /* a: its length in ns; b: 1 if the time-out ended it */
	VGPU_REC_HANG,	/* a: ns since the command was issued; code: the enum vgpu_phase then */
	VGPU_REC_RESET, /* a reset begins; code: level */
	VGPU_REC_RESET_DONE, /* code: level, a: ns it took, b: status */
	VGPU_REC_REFUSED,    /* a guest's request was refused; code: enum vgpu_window */
	VGPU_REC_FORGIVEN,   /* a: ns beyond a grant that were not charged */
	VGPU_REC_POLICY,     /* the policy changed */
	VGPU_REC_EVICTED,    /* the policy broke its contract; code: enum vgpu_fault */
	VGPU_REC_VIOLATION,  /* code: enum vgpu_violation */
	/* Only for GPUs whose firmware schedules. */
	VGPU_REC_SERVED, /* a: ns on the engine in the epoch that ends, b: its length in ns, code:
			    enum vgpu_governed_state */
	VGPU_REC_PLAN,	 /* the VF's settings from now on; a: quantum, b: time-out, ns */
	/* Written by vgpud, not by the core. */
	VGPU_REC_CLAIM, /* code 1: a part of the VM's claim is not in force; 0: the whole claim is
			 */
	VGPU_REC_CPU,	/* code 1: the VF's processes used more CPU time than their share of the
			   engine allows; 0: they no longer do. a: CPU time, b: the span, ns */
	VGPU_REC_COUNT,
};

struct vgpu_record {
	vgpu_nsec t;
	uint16_t type; /* enum vgpu_record_type */
	uint16_t code;
	uint32_t vf;
	uint64_t a, b;
};

/* The ways in which a policy can break its contract. */
enum vgpu_fault {
	VGPU_FAULT_NONE = 0,
	VGPU_FAULT_BAD_VF,  /* it picked a VF that does not exist */
	VGPU_FAULT_NO_WORK, /* it picked a VF that cannot run */
	VGPU_FAULT_ZERO_SLICE,
	VGPU_FAULT_LATE_START, /* not_before lies more than max_slice ahead */
	VGPU_FAULT_STARVED, /* it parked while a VF had work: until the next wake, or at all, if it
			       promises to be work-conserving */
	VGPU_FAULT_SLOW, /* it takes too long to decide; only a host with a clock can detect this */
	VGPU_FAULT_PAST_PARK, /* it parked until an instant that is not in the future */
	VGPU_FAULT_COUNT,
};

/* The largest number of actions that one step issues. Exceeding it is a bug and aborts the
 * program. */
#define VGPU_MAX_ACTIONS 160u
#define VGPU_MAX_RECORDS 224u

struct vgpu_output {
	uint32_t n_actions, n_records;
	struct vgpu_action actions[VGPU_MAX_ACTIONS];
	struct vgpu_record records[VGPU_MAX_RECORDS];
	const char *why; /* if the step refused the event: the reason, constant text */
};

/* A VF's use of the engine. Every nanosecond of the engine is in exactly one of the first five
 * counters of this structure and of struct vgpu_engine_ledger. */
struct vgpu_vf_ledger {
	vgpu_nsec run_ns; /* from RUN acknowledged to IDLE acknowledged, in the VF's own slots */
	vgpu_nsec donated_ns; /* the same, in slots that other VFs donated */
	/* switch time charged to this VF: long saves, and switches forced by its wake-ups */
	vgpu_nsec switch_ns;
	vgpu_nsec exclusive_ns; /* time in its exclusive windows */
	vgpu_nsec reset_ns;	/* time in its resets */
	/* The sum of all charges that the core has passed to the policy, without write-offs and
	 * without the next account(). At every step run + switch + fined + debt_charged == charged
	 * + forgiven + pending, and exclusive + reset + brought == debt_charged + debt_lapsed +
	 * debt + written_off. */
	vgpu_nsec charged_ns;
	vgpu_nsec forgiven_ns;
	vgpu_nsec debt_ns; /* time of windows and resets, and imported debt, still to be charged */
	vgpu_nsec debt_charged_ns; /* time of windows and resets charged so far, in instalments */
	vgpu_nsec debt_lapsed_ns;  /* time of windows and resets that the VF's own share covered */
	vgpu_nsec brought_ns;	   /* debt imported with the VM from another host */
	vgpu_nsec fined_ns;	   /* fines for late stops, in addition to the overrun itself */
	vgpu_nsec overrun_ns;	   /* the part of run_ns beyond the grants */
	vgpu_nsec max_overrun_ns;
	vgpu_nsec preempt_ns;  /* estimate of the VF's preemption time */
	vgpu_nsec wait_max_ns; /* the longest wait; includes one in progress */
	vgpu_nsec wait_ns; /* sum of the waits of all `dispatches`, each from having work to running
			    */
	uint64_t dispatches, wakes, preempted, ends[VGPU_END_COUNT];
	uint64_t hangs, windows, window_timeouts, refused, resets, guest_resets, clamped,
		violations;
};

struct vgpu_engine_ledger {
	vgpu_nsec wall_ns;   /* time since the core began */
	vgpu_nsec switch_ns; /* world switches that no VF was charged for */
	vgpu_nsec idle_ns;   /* time in which no VF was on the engine, or the one on it awaited its
				planned start */
	uint64_t switches, stale_answers, clamped, evictions, wake_limited;
};

struct vgpu_core_config {
	uint32_t max_vfs;
	uint32_t reset_levels; /* bit n: the GPU supports enum vgpu_reset_level n */
	bool gpu_reset;	       /* the core may escalate to VGPU_RESET_GPU */
	bool chains;	 /* the GPU takes several commands at once and executes them in order */
	bool ask_at_end; /* issue IDLE at the end of a grant, not early; for comparisons with
			    schedulers that do so */
	vgpu_nsec min_slice, max_slice;
	vgpu_nsec grace;      /* from issuing IDLE to declaring a hang */
	vgpu_nsec idle_grace; /* how long a VF without work keeps the engine, unless the policy sets
				 another time */
	vgpu_nsec lone_slice; /* the interval at which a VF without competitors is stopped, to
				 detect a hang */
	vgpu_nsec min_run;    /* how long a VF that begins to run is protected from preemption by a
				 wake-up */
	vgpu_nsec window_max; /* the longest exclusive window */
	vgpu_nsec debt_cap;   /* the largest debt that one dispatch is charged in addition to its
				 grant */
	vgpu_nsec command_timeout[VGPU_CMD_COUNT]; /* IDLE's time-out is `grace` */
	vgpu_nsec reset_timeout[VGPU_RESET_COUNT];
	vgpu_nsec switch_nominal; /* assumed world switch until one has been measured */
};

/* Writes the defaults for `max_vfs` VFs; step.c gives their sources. */
void vgpu_core_defaults(struct vgpu_core_config *config, uint32_t max_vfs);

struct vgpu_core;

/* Bytes of memory that vgpu_core_init needs for a core of max_vfs VFs. */
size_t vgpu_core_size(uint32_t max_vfs);

/*
 * Makes a core in MEMORY (the caller's, zeroed, vgpu_core_size bytes, aligned as by malloc) at
 * instant NOW. The core starts stopped, without VFs, under FALLBACK, the policy that also takes
 * over from a faulty one. FALLBACK_MEMORY is as `memory` in struct vgpu_event, and is never
 * retired. Cannot fail.
 */
struct vgpu_core *vgpu_core_init(void *memory, const struct vgpu_core_config *config,
				 const struct vgpu_policy_ops *fallback, void *fallback_memory,
				 vgpu_nsec now);

/*
 * Applies one event. Returns 0, or -EINVAL, -EBUSY or -ESTALE (parameters of another policy) if the
 * core refuses the event; then nothing has changed, and out->why says why. The core counts and
 * drops late or stale answers of the device. Never blocks.
 */
int vgpu_core_step(struct vgpu_core *core, const struct vgpu_event *event, struct vgpu_output *out);

/* Returns the instant at which VGPU_EV_TIMER is due; VGPU_NEVER if nothing is pending. */
vgpu_nsec vgpu_core_deadline(const struct vgpu_core *core);

/*
 * Returns whether VGPU_EV_TIMER at NOW would find a time-out: of the device's answer to a command
 * or a reset, or of a guest's exclusive window. The answer may have come while the caller did not
 * run. So the caller first asks the device, and steps the events that it finds there, before it
 * sends VGPU_EV_TIMER.
 */
bool vgpu_core_is_overdue(const struct vgpu_core *core, vgpu_nsec now);

/* A VF as of the last step. */
struct vgpu_vf_view {
	enum vgpu_vf_state state;
	enum vgpu_context context;
	bool has_work, held, away, incoming;
	bool admitted;	       /* the policy has admitted it */
	bool on_engine, comes; /* its context is on the engine; its context is being loaded */
	vgpu_nsec backoff_until;
	struct vgpu_vf_ledger ledger;
	vgpu_nsec pending_ns;	  /* run and switch time that the next account() will charge */
	vgpu_nsec written_off_ns; /* window and reset time beyond the largest debt, never charged */
	uint64_t share_numerator, share_denominator;
	struct vgpu_bound bound;
	int64_t lag_ns;
	/* its parameters under the policy in force, and under next_policy if there is one; 0 if
	 * the VF is not admitted */
	int64_t params[VGPU_MAX_PARAMS], next_params[VGPU_MAX_PARAMS];
};

/* The state that the core publishes: the policy in force, and its parameters. New parameters are
 * for the policy to come: next_policy, or `policy` if next_policy is NULL. */
struct vgpu_core_view {
	bool started;
	uint32_t current; /* the VF on the engine, or VGPU_NO_VF */
	uint32_t phase;	  /* enum vgpu_phase */
	const struct vgpu_policy_ops *policy;
	const struct vgpu_policy_ops *next_policy; /* takes over at the next switch, or NULL */
	/* parameters of the two policies; next_params is undefined if next_policy is NULL */
	int64_t params[VGPU_MAX_PARAMS], next_params[VGPU_MAX_PARAMS];
	const struct vgpu_policy_ops *fallback;
	enum vgpu_fault last_fault;
	char faulty[32]; /* name of the policy that was evicted last, or "" */
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

/* Write the state of the core, or of VF (< max_vfs), as of the last step. */
void vgpu_core_view(const struct vgpu_core *core, struct vgpu_core_view *out);
void vgpu_core_vf_view(const struct vgpu_core *core, uint32_t vf, struct vgpu_vf_view *out);

/*
 * As vgpu_core_vf_view, but without the parameters, and without share, bound and lag, for which the
 * policy examines all VFs. For callers that read the state after each step.
 */
void vgpu_core_vf_brief(const struct vgpu_core *core, uint32_t vf, struct vgpu_vf_view *out);

/*
 * Restores the function pointers of the core's policies, after the memory of the core and of its
 * policies was copied back to its original address, perhaps in another process. NEXT may be NULL.
 */
void vgpu_core_rebind(struct vgpu_core *core, const struct vgpu_policy_ops *policy,
		      const struct vgpu_policy_ops *next, const struct vgpu_policy_ops *fallback);

/* Returns the policy's warning to the operator, or NULL; valid until the next step. */
const char *vgpu_core_warning(const struct vgpu_core *core);

/* Names for messages, the same in every program. */
extern const char *const vgpu_command_names[VGPU_CMD_COUNT];
extern const char *const vgpu_vf_state_names[VGPU_VF_STATE_COUNT];
extern const char *const vgpu_context_names[VGPU_CTX_COUNT];
extern const char *const vgpu_end_names[VGPU_END_COUNT];
extern const char *const vgpu_record_names[VGPU_REC_COUNT];
extern const char *const vgpu_phase_names[VGPU_PHASE_COUNT];
extern const char *const vgpu_reset_names[VGPU_RESET_COUNT];
extern const char *const vgpu_violation_names[VGPU_VIOLATION_COUNT];
const char *vgpu_fault_text(enum vgpu_fault fault);
