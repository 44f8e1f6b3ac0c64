/* SPDX-License-Identifier: MIT */
/*
 * Requests that no firmware supports. Each is refused when it is configured, with a sentence, so
 * that no operator relies on a promise that the GPU cannot keep. Most of it is a table of
 * parameters; budgets and limits come from the policy's own statement of them.
 */
#include <string.h>

#include "private.h"

enum of { OF_POLICY, OF_VF };
enum is { IS, IS_NOT, IS_ANYTHING };

static const struct {
	const char *policy; /* NULL: any */
	const char *param;
	enum of of;
	enum is is;
	int64_t value;
	const char *why;
} refused[] = {
	{"deadline", NULL, OF_POLICY, IS_ANYTHING, 0,
	 "deadline: firmware gives VFs turns in a fixed order, and cannot run first the VF that is "
	 "due first; use qos with min, or fair"},
	{"strict", "idle", OF_POLICY, IS, 1,
	 "idle = donate: firmware cannot lend the turn of a VF without work; use idle = compress, "
	 "or hold"},
	{NULL, "latency_slice_us", OF_VF, IS_NOT, 0,
	 "latency_slice_us: firmware gives each VF one turn in a rotation, and none of them "
	 "sooner; "
	 "leave it at 0"},
	{"fair", "favour", OF_POLICY, IS, 2,
	 "favour = frames: firmware gives VFs turns in a fixed order, whenever they wake; leave it "
	 "at balanced"},
	{NULL, "max_ppm", OF_VF, IS_NOT, 1000000,
	 "max: firmware gives the turns of VFs without work to the others, so it limits no VF; "
	 "leave it at 100 %"},
};

static bool names(const char *of, const char *name)
{
	size_t length = strlen(name);

	return strlen(of) == length && memcmp(of, name, length) == 0;
}

/* Returns the place of a parameter in TABLE, or -1. */
static int place(const struct vgpu_param *table, const char *name)
{
	int i;

	for (i = 0; table[i].name; i++)
		if (names(table[i].name, name))
			return i;
	return -1;
}

static const char *look_up(const struct vgpu_policy_ops *policy, enum of of,
			   const struct vgpu_param *table, const int64_t *values)
{
	uint32_t i;
	int at;

	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (refused[i].of != of)
			continue;
		if (refused[i].policy && !names(refused[i].policy, policy->name))
			continue;
		if (refused[i].is == IS_ANYTHING)
			return refused[i].why;
		at = place(table, refused[i].param);
		if (at >= 0 && (values[at] == refused[i].value) == (refused[i].is == IS))
			return refused[i].why;
	}
	return NULL;
}

enum vgpu_governor_mode refuse_mode(const struct vgpu_policy_ops *policy, const int64_t *params,
				    bool *keep_turns)
{
	int at = place(policy->params, "idle");

	/* strict, idle = hold: turns pass unused. No correction is possible without taking a turn
	 * from a VF that has kept its time. */
	*keep_turns = names(policy->name, "strict") && at >= 0 && params[at] == 0;
	if (*keep_turns || !(policy->promises & ~(uint64_t)VGPU_PROMISE_WORK_CONSERVING))
		return VGPU_GOVERNOR_STATIC;
	return VGPU_GOVERNOR_GOVERNED;
}

const char *refuse_params(const struct vgpu_governor *g, const struct vgpu_policy_ops *policy,
			  const int64_t *params)
{
	bool keep_turns;

	refuse_mode(policy, params, &keep_turns);
	if (keep_turns && !g->config.keeps_turns)
		return "idle = hold: this GPU's firmware skips VFs without work; use idle = "
		       "compress";
	return look_up(policy, OF_POLICY, policy->params, params);
}

const char *refuse_vf(const struct vgpu_policy_ops *policy, const int64_t *values)
{
	return look_up(policy, OF_VF, policy->vf_params, values);
}

/* The least quantum with which the firmware alone ensures BOUND's budget, rounded up. */
static vgpu_nsec quantum_for(const struct vgpu_governor *g, uint32_t vf,
			     const struct vgpu_bound *bound)
{
	vgpu_nsec step = g->config.quantum.step, q = g->config.quantum.min;
	vgpu_nsec rotation = g->config.rotation + promise_others(g, vf);

	if (bound->budget)
		q = max_ns(q, (vgpu_nsec)((unsigned __int128)rotation * bound->budget /
					  bound->period) +
				      2 * step);
	return (q + step - 1) / step * step;
}

const char *refuse_promises(struct vgpu_governor *g, const struct vgpu_policy_ops *policy,
			    void *memory)
{
	vgpu_nsec sum = 0;
	uint32_t i;

	for (i = 0; i < g->config.max_vfs; i++) {
		struct vgpu_bound bound = {.max_lag = 0};

		policy->bound(memory, i, &bound);
		if (bound.limit_ppm)
			return "a limit: firmware gives the turns of VFs without work to the "
			       "others, so it limits no VF";
		if (bound.budget && bound.period < 2 * g->config.rotation)
			return "a guarantee's period must be at least two rotations of the "
			       "firmware's turns: raise period_ms, or lower the rotation";
		if (bound.budget && g->config.timeout.max == 0)
			return "a guarantee: this GPU's firmware has no preemption time-out, so "
			       "one VF can delay all others for ever";
		sum += quantum_for(g, i, &bound);
	}
	if (sum > g->config.rotation)
		return "the guarantees do not fit: each VF may stop as late as its preemption "
		       "time-out, and one rotation must then still hold all guarantees; lower "
		       "them or the time-out";
	return NULL;
}
