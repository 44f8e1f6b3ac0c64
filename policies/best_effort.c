/* SPDX-License-Identifier: MIT */
/*
 * best-effort: VFs that have work take turns. Nothing is charged, and the only promise is that the
 * engine does not stand still. Every eighth round one VF that seems to have no work is visited
 * nevertheless, so that a lost doorbell cannot strand a guest (AMD's hybrid liquid mode: 8 skips,
 * 500 us). Each visit that finds no work doubles the time to the next one, up to a second, so that
 * a VF that is alone loses little.
 */
#include "set.h"
#include "vgpu/policy.h"

enum { P_SLICE, P_REVISIT };

#define VISIT_NS (500 * VGPU_USEC)
#define RAREST VGPU_SEC /* longest time between two visits */

struct best_effort {
	const struct vgpu_facts *facts;
	vgpu_nsec slice;
	uint32_t revisit, rounds;
	uint32_t gap; /* rounds between two visits */
	uint32_t last, last_visited;
	bool visiting;		/* the last pick was a visit */
	bool ran;		/* a VF has run */
	int64_t first_lag;	/* lag of the VF that is to run first */
	struct set awake, idle; /* online VFs, with work and without */
};

static const struct vgpu_param params[] = {
	[P_SLICE] = {"slice_us", "us", "length of one turn", VGPU_PARAM_INT, 500, 500000, 6000,
		     NULL},
	[P_REVISIT] = {"revisit", "rounds",
		       "rounds until a VF that seems idle is visited; doubled by each visit that "
		       "finds no work; 0: never",
		       VGPU_PARAM_INT, 0, 1000, 8, NULL},
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {{.name = NULL}};

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct best_effort) + 2 * set_memory(max_vfs);
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct best_effort *b = state;

	(void)now;
	b->slice = (vgpu_nsec)values[P_SLICE] * VGPU_USEC;
	b->revisit = (uint32_t)values[P_REVISIT];
	b->gap = b->revisit;
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct best_effort *b = state;

	b->facts = facts;
	b->first_lag = INT64_MIN;
	set_init(&b->idle, set_init(&b->awake, b + 1, facts->max_vfs), facts->max_vfs);
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

static void offline(void *state, uint32_t vf, vgpu_nsec now)
{
	struct best_effort *b = state;

	(void)now;
	set_remove(&b->awake, vf);
	set_remove(&b->idle, vf);
}

static void sleep_vf(void *state, uint32_t vf, vgpu_nsec now)
{
	struct best_effort *b = state;

	(void)now;
	set_remove(&b->awake, vf);
	set_add(&b->idle, vf);
}

static bool wake(void *state, uint32_t vf, vgpu_nsec now)
{
	struct best_effort *b = state;

	(void)now;
	set_remove(&b->idle, vf);
	set_add(&b->awake, vf);
	return false;
}

/* Counts ROUNDS more rounds. Returns whether a VF that seems to have no work must be visited
 * now. */
static bool visit_is_due(struct best_effort *b, uint32_t rounds)
{
	b->rounds += rounds;
	if (b->gap == 0 || b->rounds < b->gap)
		return false;
	b->rounds = 0;
	return b->idle.n > 0;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct best_effort *b = state;
	uint32_t vf = set_next(&b->awake, b->last);

	(void)now;
	if (vf == VGPU_NO_VF)
		return;
	b->ran = true;
	/* A round ends when its last VF has run; the visit after it belongs to no round. */
	if (!b->visiting && visit_is_due(b, vf <= b->last)) {
		b->visiting = true;
		b->last_visited = set_next(&b->idle, b->last_visited);
		out->vf = b->last_visited;
		out->slice = VISIT_NS;
		return;
	}
	b->visiting = false;
	b->last = vf;
	out->vf = vf;
	out->slice = b->slice;
}

/* Extends a VF without competitors, round after round, until a VF without work must be visited. */
static vgpu_nsec extend(void *state, uint32_t vf, vgpu_nsec end)
{
	struct best_effort *b = state;

	(void)end;
	if (b->awake.n != 1 || !set_has(&b->awake, vf))
		return 0;
	if (visit_is_due(b, 1)) {
		b->rounds = b->gap; /* the next pick makes the visit */
		return 0;
	}
	return b->slice;
}

/* Makes visits rarer while they find no work. */
static void account(void *state, const struct vgpu_usage *usage)
{
	struct best_effort *b = state;
	uint64_t most = RAREST / (b->slice * (b->awake.n ? b->awake.n : 1));

	if (!b->visiting)
		return;
	if (usage->reason != VGPU_END_YIELD || set_has(&b->awake, usage->vf))
		b->gap = b->revisit;
	else if (2 * (uint64_t)b->gap <= most)
		b->gap *= 2;
}

/* Exports the order of turns as lag, because nothing is charged: the sooner a VF's turn is, the
 * larger its lag. */
static int64_t export_lag(void *state, uint32_t vf)
{
	struct best_effort *b = state;
	int64_t n = b->facts->max_vfs, before = (vf + n - 1 - b->last) % n;

	return set_has(&b->awake, vf) ? (int64_t)b->slice / (2 * n) * (n - 1 - 2 * before) : 0;
}

static void import_lag(void *state, uint32_t vf, int64_t lag)
{
	struct best_effort *b = state;

	if (b->ran || lag <= b->first_lag)
		return;
	b->first_lag = lag;
	b->last = vf > 0 ? vf - 1 : b->facts->max_vfs - 1;
}

static void share(void *state, uint32_t vf, uint64_t *numerator, uint64_t *denominator)
{
	struct best_effort *b = state;
	bool online = set_has(&b->awake, vf) || set_has(&b->idle, vf);

	*numerator = 1;
	*denominator = b->awake.n + b->idle.n + !online;
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
	.help = "VFs that have work take turns; nothing is charged or promised",
	.promises = VGPU_PROMISE_WORK_CONSERVING,
	.params = params,
	.vf_params = vf_params,
	.memory = memory,
	.attach = attach,
	.set_params = set_params,
	.admit = set_vf,
	.set_vf = set_vf,
	.remove = offline,
	.online = sleep_vf,
	.offline = offline,
	.wake = wake,
	.sleep = sleep_vf,
	.pick = pick,
	.account = account,
	.export_lag = export_lag,
	.import_lag = import_lag,
	.share = share,
	.bound = bound,
	.extend = extend,
};
