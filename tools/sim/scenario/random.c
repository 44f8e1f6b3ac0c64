/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "builtin.h"
#include "random.h"

#define HOUR (3600 * VGPU_SEC)
#define DAY (24 * HOUR)

/* The length of a scenario. In one of weeks no tenant always works, because that would be too many
 * turns. */
enum scale { SECONDS, HOURS, WEEKS };

/* splitmix64 (Steele, Lea and Flood, OOPSLA '14) */
uint64_t random_draw(struct rng *r)
{
	uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t random_between(struct rng *r, uint64_t min, uint64_t max)
{
	return min + random_draw(r) % (max - min + 1);
}

uint64_t random_magnitude(struct rng *r, uint64_t min, uint64_t max)
{
	uint64_t top = min;
	unsigned n = 0, k;

	for (; top <= max / 2; top *= 2)
		n++;
	for (k = (unsigned)(random_draw(r) % (n + 1)); k > 0; k--)
		min *= 2;
	return random_between(r, min, min <= max / 2 ? 2 * min : max);
}

bool random_one_in(struct rng *r, uint64_t n)
{
	return random_draw(r) % n == 0;
}

static struct vhost_range ordered(vgpu_nsec a, vgpu_nsec b)
{
	return (struct vhost_range){a < b ? a : b, a < b ? b : a};
}

static struct vhost_range range(struct rng *r, vgpu_nsec min, vgpu_nsec max)
{
	vgpu_nsec a = random_between(r, min, max);

	return ordered(a, random_between(r, min, max));
}

static struct vhost_range magnitudes(struct rng *r, vgpu_nsec min, vgpu_nsec max)
{
	vgpu_nsec a = random_magnitude(r, min, max);

	return ordered(a, random_magnitude(r, min, max));
}

/* Draws the length of a part of the world switch, constant or varying. */
static struct vhost_range cost(struct rng *r, bool constant, vgpu_nsec max)
{
	struct vhost_range drawn = range(r, 0, max);

	if (constant)
		drawn.min = drawn.max;
	return drawn;
}

void random_set_number(struct settings *s, const char *name, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	settings_set(s, name, text);
}

/* Parameters that are useful only within a part of their range. */
static const struct {
	const char *name;
	int64_t min, max;
} sensible[] = {
	{"min_ppm", 0, 200000},
	{"max_ppm", 10000, 1000000},
	{"budget_us", 0, 6000},
	{"period_us", 8000, 60000},
};

static int64_t value_of(struct rng *r, const struct vgpu_param *p)
{
	int64_t span = p->max - p->min;
	size_t k;

	for (k = 0; k < sizeof(sensible) / sizeof(sensible[0]); k++)
		if (strcmp(p->name, sensible[k].name) == 0)
			return (int64_t)random_between(r, (uint64_t)sensible[k].min,
						       (uint64_t)sensible[k].max);
	if (random_one_in(r, 8))
		return random_one_in(r, 2) ? p->max : p->min;
	if (p->min >= 0 && p->max > 0 && random_one_in(r, 3))
		return (int64_t)random_magnitude(r, p->min ? (uint64_t)p->min : 1,
						 (uint64_t)p->max);
	return p->min + (int64_t)(random_draw(r) % (uint64_t)((span < 12000 ? span : 12000) + 1));
}

void random_setting(struct rng *r, const struct vgpu_param *p, struct settings *out)
{
	if (p->type == VGPU_PARAM_CHOICE)
		settings_set(out, p->name, p->choices[random_draw(r) % (uint64_t)(p->max + 1)]);
	else
		random_set_number(out, p->name, value_of(r, p));
}

void random_settings(struct rng *r, const struct vgpu_param *table, struct settings *out)
{
	uint32_t i;

	for (i = 0; table[i].name && out->n < SCENARIO_MAX_SETTINGS; i++)
		if (random_one_in(r, 2))
			random_setting(r, &table[i], out);
}

/* Makes a setting likely under which budgets are promised: only under the policy's own test of
 * admission, and while no VF stops later than the policy was told. */
static void keep_in_time(struct rng *r, bool in_time, struct settings *s)
{
	uint32_t i;

	for (i = 0; i < s->n; i++) {
		if (strcmp(s->list[i].name, "admission") == 0 && !random_one_in(r, 8))
			settings_set(s, "admission", "full");
		if (strcmp(s->list[i].name, "late_us") == 0 && in_time)
			random_set_number(s, "late_us", 300);
	}
}

/* Kinds of tenants. */

static void tenant_always(struct rng *, enum scale scale, struct scenario_vf *vf)
{
	vf->work = scale == WEEKS ? VHOST_NEVER : VHOST_ALWAYS;
}

static void tenant_sleeper(struct rng *, enum scale scale, struct scenario_vf *vf)
{
	vf->work = scale == SECONDS ? VHOST_SLEEPER : VHOST_NEVER;
}

static void tenant_never(struct rng *, enum scale, struct scenario_vf *vf)
{
	vf->work = VHOST_NEVER;
}

/* Storms of wakes with tiny jobs. */
static void tenant_storm(struct rng *r, enum scale scale, struct scenario_vf *vf)
{
	vf->work = scale == SECONDS ? VHOST_BURSTS : VHOST_NEVER;
	vf->burst = range(r, 1000, 100 * VGPU_USEC);
	vf->think = range(r, 0, 100 * VGPU_USEC);
}

/* Comes and goes each millisecond. */
static void tenant_restless(struct rng *r, enum scale scale, struct scenario_vf *vf)
{
	vf->work = scale == SECONDS ? VHOST_BURSTS : VHOST_NEVER;
	vf->burst = range(r, 10 * VGPU_USEC, VGPU_MSEC);
	vf->think = range(r, 0, VGPU_MSEC);
}

static void tenant_interactive(struct rng *r, enum scale scale, struct scenario_vf *vf)
{
	vf->work = VHOST_BURSTS;
	vf->burst = range(r, 1000, 10 * VGPU_MSEC);
	vf->think = scale == SECONDS ? range(r, 0, 20 * VGPU_MSEC)
				     : range(r, VGPU_SEC, 1000 * VGPU_SEC);
}

/* Jobs from microseconds to seconds, with any pause between them. */
static void tenant_anything(struct rng *r, enum scale scale, struct scenario_vf *vf)
{
	static const vgpu_nsec longest[] = {
		[SECONDS] = 4 * VGPU_SEC, [HOURS] = HOUR, [WEEKS] = 30 * DAY};

	vf->work = VHOST_BURSTS;
	vf->burst = magnitudes(r, 1000, 2 * VGPU_SEC);
	vf->think = magnitudes(r, scale == SECONDS ? 1000 : VGPU_MSEC, longest[scale]);
}

static void tenant_periodic(struct rng *r, enum scale scale, struct scenario_vf *vf)
{
	vgpu_nsec period = scale == SECONDS ? random_between(r, 5, 100) * VGPU_MSEC
					    : random_between(r, 10, 1000) * VGPU_SEC;

	vf->work = VHOST_PERIODIC;
	vf->period = (struct vhost_range){period, period};
	vf->burst = magnitudes(r, 10 * VGPU_USEC, period < VGPU_SEC ? period : VGPU_SEC);
}

/* Takes exclusive windows as often as the limit allows, back to back. */
static void tenant_windows(struct rng *r, enum scale scale, struct scenario_vf *vf)
{
	vf->work = scale == SECONDS ? VHOST_WINDOWS : VHOST_NEVER;
	vf->window = magnitudes(r, VGPU_MSEC, VGPU_SEC);
}

static void (*const tenants[])(struct rng *r, enum scale scale, struct scenario_vf *vf) = {
	tenant_always,	 tenant_always,	     tenant_always,   tenant_sleeper,  tenant_never,
	tenant_storm,	 tenant_restless,    tenant_restless, tenant_periodic, tenant_interactive,
	tenant_periodic, tenant_interactive, tenant_anything, tenant_anything, tenant_windows,
};

void random_tenant(struct rng *r, struct scenario_vf *vf)
{
	tenants[random_draw(r) % (sizeof(tenants) / sizeof(tenants[0]))](r, SECONDS, vf);
}

static int64_t setting(const struct vgpu_param *table, const struct settings *s, const char *name)
{
	int64_t values[VGPU_MAX_PARAMS];
	uint32_t i;

	vgpu_param_defaults(table, values);
	settings_apply(s, table, false, values, NULL);
	for (i = 0; table[i].name; i++)
		if (strcmp(table[i].name, name) == 0)
			return values[i];
	return 0;
}

/* In half of the cases, limits the jobs of a VF that has a budget to the budget. */
static void keep_to_budget(struct rng *r, const struct vgpu_policy_ops *policy,
			   struct scenario_vf *vf)
{
	vgpu_nsec period, budget;

	period = (vgpu_nsec)setting(policy->vf_params, &vf->params, "period_us") * VGPU_USEC;
	budget = (vgpu_nsec)setting(policy->vf_params, &vf->params, "budget_us") * VGPU_USEC;
	if (budget == 0) {
		period =
			(vgpu_nsec)setting(policy->vf_params, &vf->params, "period_ms") * VGPU_MSEC;
		budget = period / 1000 *
			 (vgpu_nsec)setting(policy->vf_params, &vf->params, "min_ppm") / 1000;
	}
	if (budget < 2 || period == 0 || random_one_in(r, 2))
		return;
	vf->burst = range(r, budget / 2, budget - 1);
	if (random_one_in(r, 2)) {
		vf->work = VHOST_PERIODIC;
		vf->period = (struct vhost_range){period, period};
	} else {
		vf->work = VHOST_BURSTS;
		vf->think = (struct vhost_range){period, period + period / 2};
	}
}

static void random_vf(struct rng *r, const struct vgpu_policy_ops *policy, bool faults,
		      bool in_time, enum scale scale, struct scenario_vf *vf)
{
	tenants[random_draw(r) % (sizeof(tenants) / sizeof(tenants[0]))](r, scale, vf);
	vf->late = range(r, 0, !in_time && random_one_in(r, 4) ? 5 * VGPU_MSEC : 200 * VGPU_USEC);
	if (!in_time && random_one_in(r, 6)) {
		vf->rare = range(r, 0, 40 * VGPU_MSEC);
		vf->rare_ppm = 10000;
	}
	random_settings(r, policy->vf_params, &vf->params);
	if (scale == SECONDS)
		keep_to_budget(r, policy, vf);
	if (!faults)
		return;
	vf->hang_ppm = random_one_in(r, 3) ? 2000 : 0;
	vf->reset_ppm = random_one_in(r, 3) ? 2000 : 0;
	vf->window_ppm = random_one_in(r, 2) ? 3000 : 0;
	/* Computes, and takes windows back to back. */
	if (random_one_in(r, 6)) {
		vf->window_ppm = 1000000;
		vf->window = magnitudes(r, VGPU_MSEC, VGPU_SEC);
	}
}

static const struct vgpu_policy_ops *any_policy(struct rng *r)
{
	unsigned n = 0;

	while (vgpu_builtin_policies[n])
		n++;
	return vgpu_builtin_policies[random_draw(r) % n];
}

/* Draws the lateness of timers: mostly that of Linux, sometimes that of a busy host. */
static struct vhost_range lateness(struct rng *r, bool in_time)
{
	if (random_one_in(r, 8))
		return (struct vhost_range){0, 0};
	if (!in_time && random_one_in(r, 5))
		return range(r, 0, VGPU_MSEC);
	if (!in_time && random_one_in(r, 8))
		return range(r, 0, 100 * VGPU_MSEC);
	return range(r, 0, 80 * VGPU_USEC);
}

static void random_op(struct rng *r, const struct vgpu_policy_ops *policy, bool faults,
		      bool in_time, uint32_t n_vfs, struct scenario_op *op)
{
	const struct vgpu_policy_ops *other;

	op->vf = (uint32_t)(random_draw(r) % n_vfs);
	switch (random_draw(r) % (faults ? 5 : 3)) {
	case 0:
		op->type = OP_POLICY;
		/* Changes away from the tested policy, and back to it. */
		other = random_one_in(r, 2) ? policy : any_policy(r);
		snprintf(op->policy, sizeof(op->policy), "%s", other->name);
		random_settings(r, other->params, &op->params);
		keep_in_time(r, in_time, &op->params);
		break;
	case 1:
		op->type = OP_SET;
		random_settings(r, policy->vf_params, &op->params);
		break;
	case 2:
		op->type = OP_SET_POLICY;
		random_settings(r, policy->params, &op->params);
		keep_in_time(r, in_time, &op->params);
		break;
	case 3:
		op->type = OP_RESTART;
		break;
	default:
		op->type = OP_RESET;
		break;
	}
}

/* Draws changes by operators: some now and then; or one change to and fro, every 10 ms. */
static void random_ops(struct rng *r, const struct vgpu_policy_ops *policy, bool faults,
		       bool in_time, struct scenario *s)
{
	bool quickly = random_one_in(r, 4);
	uint32_t n = (uint32_t)random_between(r, 1, quickly ? 200 : 20), i;
	struct scenario_op one = {.t = 0}, two = {.t = 0}, *op;

	random_op(r, policy, false, in_time, s->n_vfs, &one);
	random_op(r, policy, false, in_time, s->n_vfs, &two);
	two.type = one.type;
	two.vf = one.vf;
	if (one.type == OP_POLICY)
		snprintf(two.policy, sizeof(two.policy), "%s", policy->name);
	for (i = 0; i < n; i++) {
		op = scenario_add_op(s);
		if (quickly)
			*op = i % 2 ? one : two;
		else
			random_op(r, policy, faults, in_time, s->n_vfs, op);
		op->t = quickly ? s->work_from + 100 * VGPU_MSEC + i * 10 * VGPU_MSEC
				: s->until / (n + 1) * (i + 1);
	}
}

/* Inserts OP in the order of time, behind operations at the same instant. */
static void insert_op(struct scenario *s, struct scenario_op op)
{
	size_t i = s->n_ops;

	scenario_add_op(s);
	for (; i > 0 && s->ops[i - 1].t > op.t; i--)
		s->ops[i] = s->ops[i - 1];
	s->ops[i] = op;
}

/* Draws VMs that come from other hosts, one VF's at a time, and resume sooner or later, or never,
 * with or without a debt. Uses a seed of its own, so that the rest of the scenario stays the same.
 */
static void random_visits(bool faults, struct scenario *s)
{
	struct rng r = {.state = s->seed};
	vgpu_nsec from = faults ? 0 : s->work_from, t;
	uint32_t n, vf, i;

	/* Not in scenarios that prove_scenario() needs without changes from outside. */
	if (s->seed % 2 == 0 || random_one_in(&r, 2))
		return;
	n = (uint32_t)random_between(&r, 1, 20);
	for (i = 0; i < n; i++) {
		vf = (uint32_t)random_between(&r, 0, s->n_vfs - 1);
		t = random_between(&r, from, s->until);
		insert_op(s, (struct scenario_op){.t = t, .type = OP_COMES, .vf = vf});
		t += random_magnitude(&r, VGPU_USEC, 2 * VGPU_SEC);
		if (t < s->until)
			insert_op(s, (struct scenario_op){
					     .t = t,
					     .type = OP_RESUMES,
					     .vf = vf,
					     .owed = random_one_in(&r, 2)
							     ? random_magnitude(&r, VGPU_USEC,
										4 * VGPU_SEC)
							     : 0});
	}
}

/* In a third of the scenarios, draws the shortest slice, and how long a VF runs before it can be
 * preempted, independently: vgpud's configuration sets only the first. Uses a seed of its own, as
 * random_visits does. */
static void random_least(struct scenario *s)
{
	struct rng r = {.state = s->seed ^ 1};

	if (!random_one_in(&r, 3))
		return;
	s->min_slice = random_magnitude(&r, 100 * VGPU_USEC, 20 * VGPU_MSEC);
	s->min_run = random_one_in(&r, 2) ? 500 * VGPU_USEC
					  : random_magnitude(&r, 100 * VGPU_USEC, 5 * VGPU_MSEC);
}

void random_scenario(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	bool faults = random_one_in(r, 3), operators = random_one_in(r, 2);
	bool constant = random_one_in(r, 2), in_time = random_one_in(r, 2);
	enum scale scale = random_one_in(r, 8) ? WEEKS : random_one_in(r, 16) ? HOURS : SECONDS;
	uint32_t i, n = (uint32_t)random_between(r, 1, 10);
	vgpu_nsec save;

	scenario_init(s, n);
	s->seed = random_draw(r) >> 1;
	snprintf(s->policy, sizeof(s->policy), "%s", policy->name);
	random_settings(r, policy->params, &s->params);
	keep_in_time(r, in_time, &s->params);
	s->load = cost(r, constant, random_one_in(r, 8) ? VGPU_MSEC : 150 * VGPU_USEC);
	s->run = cost(r, constant, 50 * VGPU_USEC);
	s->init = range(r, 0, 20 * VGPU_MSEC);
	s->window = range(r, 0, 30 * VGPU_MSEC);
	s->scrub = range(r, 0, 10 * VGPU_MSEC);
	s->reset = range(r, 0, 100 * VGPU_MSEC);
	s->timer_late = lateness(r, in_time);
	/* All VFs are up before the first has work, so that the comparison begins equal. */
	s->work_from = faults ? 0 : 2 * VGPU_SEC;
	s->until = s->work_from + (scale == WEEKS   ? random_between(r, 10, 200) * DAY
				   : scale == HOURS ? random_between(r, 1, 12) * HOUR
						    : random_between(r, 1, 12) * VGPU_SEC);
	save = random_between(r, 0, 300 * VGPU_USEC);
	for (i = 0; i < n; i++) {
		random_vf(r, policy, faults, in_time, scale, &s->vfs[i]);
		s->vfs[i].save =
			constant ? (struct vhost_range){save, save} : range(r, 0, 300 * VGPU_USEC);
	}
	if (faults) {
		s->command_fails_ppm = random_one_in(r, 2) ? 50 : 0;
		s->reset_fails_ppm = random_one_in(r, 2) ? 100000 : 0;
		s->gpu_reset = random_one_in(r, 2);
		s->windows_stick = random_one_in(r, 10);
	}
	s->chains = random_one_in(r, 2);
	if (operators)
		random_ops(r, policy, faults, in_time, s);
	if (scale == SECONDS)
		random_visits(faults, s);
	random_least(s);
}
