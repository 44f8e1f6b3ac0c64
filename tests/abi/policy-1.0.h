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
 */
#ifndef VGPU_POLICY_H
#define VGPU_POLICY_H

#include "vgpu/types.h"

#define VGPU_POLICY_ABI_MAJOR 1
#define VGPU_POLICY_ABI_MINOR 0

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
};

enum vgpu_pick_flags {
	/* The time belongs to another VF's slot: record it, do not count it as share. */
	VGPU_PICK_DONATED = 1u << 0,
	/* Do not take the engine away when the VF runs out of work inside its slice. */
	VGPU_PICK_HOLD = 1u << 1,
};

/* The answer of pick(); zeroed by the host before the call. */
struct vgpu_pick {
	uint32_t vf;	      /* or VGPU_NO_VF: park the engine */
	uint32_t flags;	      /* enum vgpu_pick_flags */
	vgpu_nsec not_before; /* the instant at which the VF may start running; 0: at once */
	vgpu_nsec slice;      /* for a VF: how long it may run, counted from its start */
	vgpu_nsec park_until; /* for VGPU_NO_VF: when to pick again; VGPU_NEVER: at the next wake */
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
};

/* The policy's own promise for one VF, as of now. */
struct vgpu_bound {
	vgpu_nsec max_lag;  /* |lag| against the fluid ideal, while it always has work */
	vgpu_nsec max_wait; /* from having work to running; VGPU_NEVER: none promised */
};

enum vgpu_promise {
	VGPU_PROMISE_WORK_CONSERVING = 1u << 0, /* parks only if no VF has work */
	VGPU_PROMISE_PROPORTIONAL = 1u << 1, /* service follows share(), lag stays within bound() */
	VGPU_PROMISE_NO_STARVATION = 1u << 2, /* waits stay within bound() */
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

	/* A VF comes under the policy, with its parameters. Refusal: false and a constant sentence
	 * in *why; then nothing has changed. */
	bool (*admit)(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now,
		      const char **why);
	/* New parameters of an admitted VF; refusal as in admit. Lag is kept. */
	bool (*set_vf)(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now,
		       const char **why);
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
};

/* The one symbol that a plug-in exports. */
extern const struct vgpu_policy_ops vgpu_policy_entry;

#endif
