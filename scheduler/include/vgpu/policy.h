/* SPDX-License-Identifier: MIT */
/*
 * The policy contract, both sides: the calls that a policy provides (struct vgpu_policy_ops), and
 * the data that the host lends it (its memory and struct vgpu_facts).
 *
 * A policy decides which VF runs next and for how long; nothing else. It is a pure reducer:
 * integers only, no clock, no allocation, no randomness, no system call. The host makes all calls
 * from one thread, so that the same source makes the same decisions in the daemon, in the simulator
 * and in a replay.
 *
 * Life of a VF, as a policy sees it:
 *
 *   admit --> online --> wake --> (pick --> run --> account)* --> sleep --> offline --> remove
 *                          ^                                        |
 *                          +----------------------------------------+
 *
 * VFs are numbered 0 .. facts->max_vfs - 1. The host never calls with a number outside of that
 * range, never wakes a VF that is not online, and calls account exactly once for every pick of a
 * VF, before the next pick.
 *
 * There is no tick. A policy that wants to decide again at some instant ends its slice there, or
 * parks the engine until then.
 *
 * Versions: a host of major version M and minor version m accepts tables of major version M and of
 * any minor version. New operations are only ever added at the end of the table, so an older table
 * is shorter. New fields are only ever added at the end of the structures that the host lends.
 */
#ifndef VGPU_POLICY_H
#define VGPU_POLICY_H

#include "vgpu/types.h"

#define VGPU_POLICY_ABI_MAJOR 1
#define VGPU_POLICY_ABI_MINOR 3

enum vgpu_param_type {
	VGPU_PARAM_INT = 0,
	VGPU_PARAM_CHOICE = 1, /* an index into choices[] */
};

/* One parameter. Validation, vgpuctl's help and the manual all use this description. */
struct vgpu_param {
	const char *name;
	const char *unit; /* "us", "slots", ... or "" */
	const char *help; /* one line */
	enum vgpu_param_type type;
	int64_t min, max, def;
	const char *const *choices; /* NULL-terminated; for VGPU_PARAM_CHOICE only */
};

/* The host's knowledge of the GPU. Owned by the host, which may change it between two calls. */
struct vgpu_facts {
	uint32_t max_vfs;
	vgpu_nsec switch_ns; /* the measured world switch, IDLE acknowledged to RUN acknowledged */
	vgpu_nsec min_slice_ns; /* the host clamps every slice to [min, max], and counts it */
	vgpu_nsec max_slice_ns;
	/* since 1.1 */
	vgpu_nsec switch_high_ns; /* mean plus four deviations: the value that guarantees assume */
	vgpu_nsec min_run_ns; /* how long a VF that begins to run is protected from preemption by a
				 wake-up */
	vgpu_nsec grace_ns;   /* from issuing IDLE to declaring a hang */
	vgpu_nsec window_ns;  /* the longest exclusive window */
};

enum vgpu_pick_flags {
	/* The VF runs in another VF's slot: the host records the time, and charges no VF. */
	VGPU_PICK_DONATED = 1u << 0,
	/* The VF keeps the engine for its whole slice, even when it runs out of work. */
	VGPU_PICK_HOLD = 1u << 1,
	/* Since 1.1. The slice is the rest of a budget: it may be shorter than min_slice_ns. */
	VGPU_PICK_REMAINDER = 1u << 2,
	/* Since 1.2. The result of share() changes with this pick: parameters that were set during
	 * a round take effect now. */
	VGPU_PICK_NEW_SHARES = 1u << 3,
};

/* The answer of pick(). The host presets it to parking until the next wake. */
struct vgpu_pick {
	uint32_t vf;	      /* or VGPU_NO_VF: park the engine */
	uint32_t flags;	      /* enum vgpu_pick_flags */
	vgpu_nsec not_before; /* the instant at which the VF may start running; 0: at once */
	vgpu_nsec slice;      /* for a VF: how long it may run, counted from its start */
	vgpu_nsec park_until; /* for VGPU_NO_VF: when to pick again; VGPU_NEVER: at the next wake;
			       * an instant that is not in the future is a fault */
	/* Since 1.2. How long after the end of its slice the VF may stop without harm. The host
	 * issues IDLE that much later than the VF's preemption time requires, so that the VF uses
	 * its whole budget: an unused rest would cost another switch. */
	vgpu_nsec late;
	/* Since 1.3. How long the VF keeps the engine, and is charged for it, when it runs out of
	 * work, in case more comes. Not beyond its grant. Preset to the host's default. */
	vgpu_nsec idle_grace;
};

enum vgpu_end {
	VGPU_END_SLICE = 0,    /* the grant ended */
	VGPU_END_YIELD,	       /* the VF had no work left */
	VGPU_END_WAKE_PREEMPT, /* another VF woke up, and the policy preferred it */
	VGPU_END_EXCLUSIVE,    /* an exclusive window was due */
	VGPU_END_HANG,	       /* the VF did not stop, or broke its context, and was reset */
	VGPU_END_REMOVED,      /* the VF was reset, held, released or removed for another reason */
	VGPU_END_COUNT,
};

/* The account of one dispatch. */
struct vgpu_usage {
	uint32_t vf;
	enum vgpu_end reason;
	bool donated;
	vgpu_nsec start;   /* RUN acknowledged */
	vgpu_nsec end;	   /* IDLE acknowledged */
	vgpu_nsec granted; /* after clamping */
	vgpu_nsec used;	   /* end - start */
	vgpu_nsec overrun; /* the part of used that lies beyond the grant */
	/* The charge: used, plus the switch time and debts that this VF pays, less the write-off of
	 * everything beyond the host's cap. */
	vgpu_nsec charge;
	vgpu_nsec switched; /* since 1.2: the part of charge that is world-switch time */
};

/*
 * The policy's promise to one VF, as of now. Durations are wall-clock time; service is charged
 * time. A bound may grow only with measurements: the worst overrun of a VF, the time that a VF
 * takes to stop, the world switch, and what a VF keeps when it pauses in its turn.
 */
struct vgpu_bound {
	/* The largest difference, at any instant and either way, between the VF's service and that
	 * of an ideal fluid server, which divides the same time by share() between all VFs with
	 * work, if both began with nothing owed. VGPU_NEVER: no promise. */
	vgpu_nsec max_lag;
	/* The longest wait from having work (the VF wakes up, or was stopped with work left) to
	 * running. The following come on top: one exclusive window, and another for each full
	 * second of the wait beside windows; resets and changes of policy; and, after a restart of
	 * vgpud, the time until the VF that it found running has stopped. VGPU_NEVER: no
	 * promise. */
	vgpu_nsec max_wait;
	/* Since 1.1. A guarantee beside the share; PERIOD 0: none. A job of at most BUDGET that
	 * arrives when its predecessor is done, and at least PERIOD after that one arrived, is done
	 * within PERIOD. A VF that always has work gets k budgets in k periods. BUDGET is 0 if the
	 * VF has been seen to stop so late that a whole budget may be missing. */
	vgpu_nsec budget, period;
	/* Since 1.1. A limit in millionths; 0: none. In any window of length t the VF gets at most
	 * limit_ppm * t / 10^6 + BURST of service, and service that is not charged to it yet: a
	 * long save is charged with the next dispatch. */
	uint32_t limit_ppm;
	vgpu_nsec burst;
};

enum vgpu_promise {
	VGPU_PROMISE_WORK_CONSERVING = 1u << 0, /* parks only if no VF has work */
	VGPU_PROMISE_PROPORTIONAL =
		1u << 1, /* service follows share(), and lag stays within bound() */
	VGPU_PROMISE_NO_STARVATION =
		1u << 2, /* bound() gives a wait for each VF, and the policy keeps it */
	VGPU_PROMISE_GUARANTEE = 1u << 3, /* since 1.1: admission ensures the budgets in bound() */
};
#define VGPU_PROMISES_KNOWN UINT64_C(0xf)

/* The reasons for which a policy is detached. */
enum vgpu_detach {
	VGPU_DETACH_REPLACED = 0, /* an operator replaced it */
	VGPU_DETACH_EVICTED,	  /* it broke its contract */
};

struct vgpu_policy_ops {
	uint32_t size; /* sizeof(struct vgpu_policy_ops) */
	uint16_t abi_major, abi_minor;
	char name[32];
	const char *help; /* one line */
	uint64_t promises;
	const struct vgpu_param
		*params; /* the policy's own parameters; a NULL name ends the table */
	const struct vgpu_param *vf_params; /* parameters of each VF; a NULL name ends the table */

	/* Returns the bytes of memory that the policy needs. The host allocates them, zeroed, and
	 * frees them. */
	size_t (*memory)(uint32_t max_vfs);
	/* The first call. FACTS is the host's, and stays valid until detach; the policy copies
	 * PARAMS. */
	void (*attach)(void *state, const struct vgpu_facts *facts, const int64_t *params);
	/* Sets all of the policy's own parameters; the host has checked their ranges. */
	void (*set_params)(void *state, const int64_t *params, vgpu_nsec now);

	/* Admits a VF with its parameters. To refuse, returns false with a sentence in *why, which
	 * is constant or in the policy's memory, and changes nothing. */
	bool (*admit)(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now,
		      const char **why);
	/* Sets the parameters of an admitted VF; refuses as admit does. Keeps the VF's lag. */
	bool (*set_vf)(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now,
		       const char **why);
	/* The VF leaves, for good or to be admitted anew. Never called for a GPU that vgpud
	 * switches: its VFs stay as long as the GPU. */
	void (*remove)(void *state, uint32_t vf, vgpu_nsec now);
	/* The VF's guest driver has come up, or has gone. */
	void (*online)(void *state, uint32_t vf, vgpu_nsec now);
	void (*offline)(void *state, uint32_t vf, vgpu_nsec now);
	/* The VF has got work, or has run out of it. wake returns whether the VF should preempt the
	 * running one, or end the parking of the engine; the host limits how often a VF may do
	 * that. */
	bool (*wake)(void *state, uint32_t vf, vgpu_nsec now);
	void (*sleep)(void *state, uint32_t vf, vgpu_nsec now);

	/* Decides which VF runs next. Must name a VF that has work, or park. */
	void (*pick)(void *state, struct vgpu_pick *out, vgpu_nsec now);
	/* The picked VF has started to run (RUN acknowledged). Optional. */
	void (*run)(void *state, uint32_t vf, vgpu_nsec now);
	/* The dispatch of the last pick has ended; the policy charges the VF. */
	void (*account)(void *state, const struct vgpu_usage *usage);

	/* Carry fairness over a change of policy: the service that the VF is owed, in ns (negative:
	 * it owes). The host calls import_lag after admit. */
	int64_t (*export_lag)(void *state, uint32_t vf);
	void (*import_lag)(void *state, uint32_t vf, int64_t lag);

	/* The share of the engine that the VF is promised while all VFs have work: NUMERATOR /
	 * DENOMINATOR, both at least 1 for an admitted VF. Its part of the sum of all VFs' shares
	 * is its part of the time for exclusive windows; an eighth of that if the policy promises
	 * budgets, or neither shares nor waits. */
	void (*share)(void *state, uint32_t vf, uint64_t *numerator, uint64_t *denominator);
	void (*bound)(void *state, uint32_t vf, struct vgpu_bound *out);

	/* The next three since 1.1, all optional. */

	/* Returns whether set_params may be called with PARAMS; refuses as admit does. */
	bool (*check_params)(void *state, const int64_t *params, vgpu_nsec now, const char **why);
	/* Returns a warning to the operator (goals that conflict, a guarantee at risk), or NULL. */
	const char *(*warning)(void *state);
	/* The last call. TEXT: one sentence with the reason, valid during the call. */
	void (*detach)(void *state, enum vgpu_detach why, const char *text);

	/* Since 1.2, optional. VF runs, and its grant ends at END: now, or later by the time that
	 * the VF usually takes to stop, up to facts->grace_ns. Calls that follow may be of earlier
	 * instants than END, and the VF may stop before it. If the next pick would name VF again,
	 * returns how much longer than END it may run, which saves a switch from the VF to itself;
	 * otherwise returns 0, and the grant ends. The host counts the extension as granted, and
	 * calls account() once, at the end of the extended dispatch. */
	vgpu_nsec (*extend)(void *state, uint32_t vf, vgpu_nsec end);

	/* Since 1.3, optional. The VF of the open dispatch has run out of work. It may get work
	 * again before its account; the host then calls neither sleep() nor wake(). */
	void (*drained)(void *state, uint32_t vf, vgpu_nsec now);
};

/* The only symbol that a plug-in exports. */
extern const struct vgpu_policy_ops vgpu_policy_entry;

#endif
