/* SPDX-License-Identifier: MIT */
/*
 * best-effort: whoever has work takes turns; nothing is charged and nothing is promised but that
 * the engine does not stand still. Every eighth round one VF that seems to have no work is visited
 * all the same, so that a lost doorbell cannot strand a guest (AMD's hybrid liquid mode: 8 skips,
 * 500 us).
 */
#include "vgpu/policy.h"

enum { P_SLICE, P_REVISIT };

#define VISIT_NS (500 * VGPU_USEC)

struct best_effort {
	const struct vgpu_facts *facts;
	vgpu_nsec slice;
	uint32_t revisit, rounds;
	uint32_t last, last_visited;
	struct vf {
		bool admitted, online, awake;
	} vfs[];
};

static const struct vgpu_param params[] = {
	[P_SLICE] = {"slice_us", "us", "length of one turn", VGPU_PARAM_INT, 500, 500000, 6000,
		     NULL},
	[P_REVISIT] = {"revisit", "rounds", "rounds after which an idle VF is visited; 0: never",
		       VGPU_PARAM_INT, 0, 1000, 8, NULL},
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {{.name = NULL}};

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct best_effort) + max_vfs * sizeof(struct vf);
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct best_effort *b = state;

	(void)now;
	b->slice = (vgpu_nsec)values[P_SLICE] * VGPU_USEC;
	b->revisit = (uint32_t)values[P_REVISIT];
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct best_effort *b = state;

	b->facts = facts;
	set_params(state, values, 0);
}

static bool set_vf(void *state, uint32_t vf, const int64_t *values, vgpu_nsec now, const char **why)
{
	(void)state;
	(void)vf;
	(void)values;
	(void)now;
	(void)why;
	return true;
}

static bool admit(void *state, uint32_t vf, const int64_t *values, vgpu_nsec now, const char **why)
{
	struct best_effort *b = state;

	b->vfs[vf].admitted = true;
	return set_vf(state, vf, values, now, why);
}

static void remove_vf(void *state, uint32_t vf, vgpu_nsec now)
{
	struct best_effort *b = state;

	(void)now;
	b->vfs[vf] = (struct vf){.admitted = false};
}

static void online(void *state, uint32_t vf, vgpu_nsec now)
{
	struct best_effort *b = state;

	(void)now;
	b->vfs[vf].online = true;
}

static void offline(void *state, uint32_t vf, vgpu_nsec now)
{
	struct best_effort *b = state;

	(void)now;
	b->vfs[vf].online = false;
}

static bool wake(void *state, uint32_t vf, vgpu_nsec now)
{
	struct best_effort *b = state;

	(void)now;
	b->vfs[vf].awake = true;
	return false;
}

static void sleep_vf(void *state, uint32_t vf, vgpu_nsec now)
{
	struct best_effort *b = state;

	(void)now;
	b->vfs[vf].awake = false;
}

/* The next VF after FROM that is online and has work, or has none. */
static uint32_t next(const struct best_effort *b, uint32_t from, bool awake)
{
	uint32_t n = b->facts->max_vfs, i, vf;

	for (i = 1; i <= n; i++) {
		vf = (from + i) % n;
		if (b->vfs[vf].online && b->vfs[vf].awake == awake)
			return vf;
	}
	return VGPU_NO_VF;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct best_effort *b = state;
	uint32_t vf = next(b, b->last, true), idle;

	(void)now;
	if (vf == VGPU_NO_VF)
		return;
	if (vf <= b->last)
		b->rounds++;
	if (b->revisit && b->rounds >= b->revisit) {
		b->rounds = 0;
		idle = next(b, b->last_visited, false);
		if (idle != VGPU_NO_VF) {
			b->last_visited = idle;
			out->vf = idle;
			out->slice = VISIT_NS;
			return;
		}
	}
	b->last = vf;
	out->vf = vf;
	out->slice = b->slice;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	(void)state;
	(void)usage;
}

static int64_t export_lag(void *state, uint32_t vf)
{
	(void)state;
	(void)vf;
	return 0;
}

static void import_lag(void *state, uint32_t vf, int64_t lag)
{
	(void)state;
	(void)vf;
	(void)lag;
}

static void share(void *state, uint32_t vf, uint64_t *numerator, uint64_t *denominator)
{
	struct best_effort *b = state;
	uint32_t i;

	*numerator = 1;
	*denominator = 0;
	for (i = 0; i < b->facts->max_vfs; i++)
		*denominator += b->vfs[i].online || i == vf;
}

static void bound(void *state, uint32_t vf, struct vgpu_bound *out)
{
	(void)state;
	(void)vf;
	out->max_lag = VGPU_NEVER;
	out->max_wait = VGPU_NEVER;
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "best-effort",
	.help = "turns for whoever has work; nothing is charged, nothing promised",
	.promises = VGPU_PROMISE_WORK_CONSERVING,
	.params = params,
	.vf_params = vf_params,
	.memory = memory,
	.attach = attach,
	.set_params = set_params,
	.admit = admit,
	.set_vf = set_vf,
	.remove = remove_vf,
	.online = online,
	.offline = offline,
	.wake = wake,
	.sleep = sleep_vf,
	.pick = pick,
	.account = account,
	.export_lag = export_lag,
	.import_lag = import_lag,
	.share = share,
	.bound = bound,
};
