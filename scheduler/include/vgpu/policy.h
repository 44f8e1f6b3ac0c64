/* SPDX-License-Identifier: MIT */
/*
 * The policy contract, both sides: what a policy gives (struct vgpu_policy_ops) and all that it
 * is lent (its memory and struct vgpu_facts).
 *
 * A policy decides who runs next and for how long; nothing else. It is a pure reducer: integers
 * only, no clock, no allocation, no randomness, no system call. Everything it knows came in
 * through these callbacks, all of them from one thread, so the same source gives the same
 * decisions in the daemon, in the simulator and in a replay.
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
 * There is no tick. What is to happen at an instant is said by the pick before it: a slice ends
 * there, or the engine is parked until then.
 *
 * Versions: a host of major version M and minor version m takes tables of major M and of any
 * minor. Operations are only ever added at the end of the table; a shorter table ends with those
 * that it knows. Fields are only ever added at the end of what the host lends.
 */
#ifndef VGPU_POLICY_H
#define VGPU_POLICY_H

#include "vgpu/types.h"

#define VGPU_POLICY_ABI_MAJOR 1
#define VGPU_POLICY_ABI_MINOR 2

enum vgpu_param_type {
	VGPU_PARAM_INT = 0,
	VGPU_PARAM_CHOICE = 1, /* an index into choices[] */
};

/* One parameter: validation, vgpuctl's help and the manual all come from this. */
struct vgpu_param {
	const char *name;
	const char *unit; /* "us", "slots", ... or "" */
	const char *help; /* one line */
	enum vgpu_param_type type;
	int64_t min, max, def;
	const char *const *choices; /* NULL-terminated; for VGPU_PARAM_CHOICE only */
};

/* What the host knows of the GPU; its memory, and it may change between two calls. */
struct vgpu_facts {
	uint32_t max_vfs;
	vgpu_nsec switch_ns; /* the measured world switch, IDLE acknowledged to RUN acknowledged */
	vgpu_nsec min_slice_ns; /* the host clamps every slice to [min, max], and counts it */
	vgpu_nsec max_slice_ns;
	/* since 1.1 */
	vgpu_nsec switch_high_ns; /* the mean and four deviations: what guarantees reckon with */
	vgpu_nsec min_run_ns;	  /* who has just begun to run is not preempted for so long */
	vgpu_nsec grace_ns;	  /* from asking for IDLE to declaring a hang */
	vgpu_nsec window_ns;	  /* the longest exclusive window */
};

enum vgpu_pick_flags {
	/* The time belongs to another VF's slot: record it, do not count it as share. */
	VGPU_PICK_DONATED = 1u << 0,
	/* Do not take the engine away when the VF runs out of work inside its slice. */
	VGPU_PICK_HOLD = 1u << 1,
	/* Since 1.1. The slice is what is left of a budget: it may be shorter than the shortest. */
	VGPU_PICK_REMAINDER = 1u << 2,
};

/* The answer of pick(). Before the call the host fills in: park until the next wake. */
struct vgpu_pick {
	uint32_t vf;	      /* or VGPU_NO_VF: park the engine */
	uint32_t flags;	      /* enum vgpu_pick_flags */
	vgpu_nsec not_before; /* the instant at which the VF may start running; 0: at once */
	vgpu_nsec slice;      /* for a VF: how long it may run, counted from its start */
	vgpu_nsec park_until; /* for VGPU_NO_VF: when to pick again; VGPU_NEVER: at the next wake;
			       * an instant that has come already is a fault */
	/* Since 1.2. The VF may stop this much after the end of its slice without harm: the host
	 * asks for the engine that much later than the VF's own preemption time would have it, so
	 * that a budget is not left with a rest that costs another switch. */
	vgpu_nsec late;
};

enum vgpu_end {
	VGPU_END_SLICE = 0,    /* its grant ended */
	VGPU_END_YIELD,	       /* it had no work left */
	VGPU_END_WAKE_PREEMPT, /* another VF woke and was preferred */
	VGPU_END_EXCLUSIVE,    /* an exclusive window was due */
	VGPU_END_HANG,	       /* it did not stop, or broke its context, and was reset */
	VGPU_END_REMOVED,      /* it was reset, released or removed from outside */
	VGPU_END_COUNT,
};

/* What one dispatch came to. */
struct vgpu_usage {
	uint32_t vf;
	enum vgpu_end reason;
	bool donated;
	vgpu_nsec start;   /* RUN acknowledged */
	vgpu_nsec end;	   /* IDLE acknowledged */
	vgpu_nsec granted; /* after clamping */
	vgpu_nsec used;	   /* end - start */
	vgpu_nsec overrun; /* the part of used that lies beyond the grant */
	/* What to charge: used, plus switch time and debts laid on this VF, less what exceeded the
	 * host's cap and was written off. */
	vgpu_nsec charge;
	vgpu_nsec switched; /* since 1.2: the part of charge that is world-switch time */
};

/*
 * The policy's own promise for one VF, as of now. Instants and durations are of the wall clock;
 * service is what the VF is charged. A bound may grow with what has been seen so far (the worst
 * overrun of a VF, the world switch), never with what a policy claims to be forgiven.
 */
struct vgpu_bound {
	/* At any instant, how far the VF's service is from what an ideal fluid server that shares
	 * the same time by share() between all VFs with work would have given it, either way, if
	 * both have begun with nothing owed. VGPU_NEVER: none promised. */
	vgpu_nsec max_lag;
	/* From having work, be it that it wakes or that it has just been stopped, to running;
	 * exclusive windows, resets and changes of policy meanwhile come on top; so does, after a
	 * restart of the host, the time until the VF that it found running has stopped.
	 * VGPU_NEVER: none promised. */
	vgpu_nsec max_wait;
	/* Since 1.1. A guarantee of its own, beside the share; 0: none. A job of no more than
	 * BUDGET that comes when its predecessor is done, and no sooner than PERIOD after that one
	 * came, is done within PERIOD; who always has work has had k budgets after k periods. */
	vgpu_nsec budget, period;
	/* Since 1.1. A limit, in millionths of the time: in any window of length t no more service
	 * than limit_ppm * t / 10^6 + BURST; 0: none. */
	uint32_t limit_ppm;
	vgpu_nsec burst;
};

enum vgpu_promise {
	VGPU_PROMISE_WORK_CONSERVING = 1u << 0, /* parks only if no VF has work */
	VGPU_PROMISE_PROPORTIONAL = 1u << 1, /* service follows share(), lag stays within bound() */
	VGPU_PROMISE_NO_STARVATION = 1u << 2, /* bound() states a wait for each VF, and keeps it */
	VGPU_PROMISE_GUARANTEE = 1u << 3, /* since 1.1: budgets in bound() are kept by admission */
};
#define VGPU_PROMISES_KNOWN UINT64_C(0xf)

/* Why a policy is no longer needed. */
enum vgpu_detach {
	VGPU_DETACH_REPLACED = 0, /* by an operator */
	VGPU_DETACH_EVICTED,	  /* it broke its contract */
};

struct vgpu_policy_ops {
	uint32_t size; /* sizeof(struct vgpu_policy_ops) */
	uint16_t abi_major, abi_minor;
	char name[32];
	const char *help; /* one line */
	uint64_t promises;
	const struct vgpu_param *params;    /* of the policy; ends at a NULL name */
	const struct vgpu_param *vf_params; /* of each VF; ends at a NULL name */

	/* How much memory the policy needs. The host allocates it, zeroed, and frees it. */
	size_t (*memory)(uint32_t max_vfs);
	/* First call. FACTS stays valid and is the host's; PARAMS is copied by the policy. */
	void (*attach)(void *state, const struct vgpu_facts *facts, const int64_t *params);
	/* New values of the policy's own parameters, all of them, already within their ranges. */
	void (*set_params)(void *state, const int64_t *params, vgpu_nsec now);

	/* A VF comes under the policy, with its parameters. Refusal: false and a sentence in *why,
	 * constant or in the policy's memory; then nothing has changed. */
	bool (*admit)(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now,
		      const char **why);
	/* New parameters of an admitted VF; refusal as in admit. Lag is kept. */
	bool (*set_vf)(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now,
		       const char **why);
	/* It leaves, for good or to be admitted anew. VFs of a GPU that vgpud switches come with
	 * the GPU and stay: there this is never called. */
	void (*remove)(void *state, uint32_t vf, vgpu_nsec now);
	/* Its guest driver is up, or gone. */
	void (*online)(void *state, uint32_t vf, vgpu_nsec now);
	void (*offline)(void *state, uint32_t vf, vgpu_nsec now);
	/* It has work, or has run out of it. wake returns whether the VF should preempt the one
	 * that runs now, or end the parking of the engine; the host limits how often that may
	 * happen. */
	bool (*wake)(void *state, uint32_t vf, vgpu_nsec now);
	void (*sleep)(void *state, uint32_t vf, vgpu_nsec now);

	/* Who is next. Must name a VF that has work, or park. */
	void (*pick)(void *state, struct vgpu_pick *out, vgpu_nsec now);
	/* The picked VF runs now (RUN acknowledged). Optional. */
	void (*run)(void *state, uint32_t vf, vgpu_nsec now);
	void (*account)(void *state, const struct vgpu_usage *usage);

	/* Carries fairness over a change of policy: how much service the VF is owed, in ns
	 * (negative: it owes). import comes after admit. */
	int64_t (*export_lag)(void *state, uint32_t vf);
	void (*import_lag)(void *state, uint32_t vf, int64_t lag);

	/* The share of the engine that the VF is promised while all VFs have work: NUMERATOR of
	 * DENOMINATOR, both at least 1 for an admitted VF. */
	void (*share)(void *state, uint32_t vf, uint64_t *numerator, uint64_t *denominator);
	void (*bound)(void *state, uint32_t vf, struct vgpu_bound *out);

	/* Since 1.1; all of them optional. */

	/* Whether set_params may be called with these; refusal as in admit. */
	bool (*check_params)(void *state, const int64_t *params, vgpu_nsec now, const char **why);
	/* What an operator should know: goals that conflict, a guarantee at risk. NULL: nothing. */
	const char *(*warning)(void *state);
	/* The last call. TEXT: one sentence, valid during the call. */
	void (*detach)(void *state, enum vgpu_detach why, const char *text);

	/* Since 1.2; optional. The grant of VF, which runs, will end at END, now or a little later.
	 * If the next pick would name it again: for how much longer than until END it may run, so
	 * that it is not switched with itself. 0: its grant ends. The host counts what is added as
	 * granted; account() comes once, at the end of it all. */
	vgpu_nsec (*extend)(void *state, uint32_t vf, vgpu_nsec end);
};

/* The one symbol that a plug-in exports. */
extern const struct vgpu_policy_ops vgpu_policy_entry;

#endif
