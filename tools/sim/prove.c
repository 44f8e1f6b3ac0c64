/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "admission.h"
#include "builtin.h"
#include "climb.h"
#include "peer.h"
#include "prove.h"
#include "random.h"
#include "relations.h"
#include "shrink.h"
#include "strategy.h"

/* The most steps of a random scenario, which might take very long. */
#define MOST_STEPS 60000u
/* The most steps of a scenario of a climb. */
#define CLIMB_STEPS 2000u
/* A climb begins with the highest of CLIMB_STARTS scenarios, and ends after CLIMB_MISSES steps that
 * led no higher. */
#define CLIMB_STARTS 8u
#define CLIMB_MISSES 200u
/* The parts of all decisions that random scenarios have, that sets at the boundary of admission
 * have, and that one climb has at most. */
#define RANDOM_PART 0.4
#define ADMISSION_PART 0.2
#define CLIMB_PART 0.05
/* The longest scenario in which partitions change: they change every few hundredths of a second,
 * even while no VF has work. */
#define LONGEST_CHANGING (600 * VGPU_SEC)

static bool misbehaves(const struct scenario *s)
{
	uint32_t i;
	size_t k;

	for (i = 0; i < s->n_vfs; i++) {
		const struct scenario_vf *vf = &s->vfs[i];

		if (vf->hang_ppm || vf->reset_ppm || vf->window_ppm || vf->work == VHOST_WINDOWS)
			return true;
		for (k = 0; k < vf->n_items; k++)
			if (vf->items[k].kind == VHOST_HANG)
				return true;
	}
	return s->command_fails_ppm;
}

/* Returns whether all tenants behave, nothing is changed, and all begin together: relations begin
 * with such a scenario. */
static bool is_calm(const struct scenario *s)
{
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++)
		if (s->vfs[i].work == VHOST_SCRIPT)
			return false;
	return !misbehaves(s) && !s->n_ops && s->work_from > 0;
}

/*
 * Returns whether budgets may be judged. The operator states how late a VF may stop (late_us, 500
 * us by default); scenarios in which VFs stop later prove nothing about budgets. Nor do those with
 * a weaker, published test of admission, which promises too much.
 */
static bool allows(const struct settings *params, vgpu_nsec late)
{
	vgpu_nsec allowed = 500 * VGPU_USEC;
	uint32_t i;

	for (i = 0; i < params->n; i++) {
		int64_t value = 0;

		if (strcmp(params->list[i].name, "admission") == 0 &&
		    strcmp(params->list[i].value, "full") != 0)
			return false;
		if (strcmp(params->list[i].name, "late_us") == 0 &&
		    vgpu_parse_int(params->list[i].value, &value) == 0)
			allowed = (vgpu_nsec)value * VGPU_USEC;
	}
	return late <= allowed;
}

enum monitor_judges prove_judges(const struct scenario *s)
{
	vgpu_nsec late = 0;
	bool count = !misbehaves(s);
	uint32_t i;
	size_t k;

	for (i = 0; i < s->n_vfs; i++) {
		if (s->vfs[i].rare_ppm)
			return MONITOR_OTHERS;
		if (s->vfs[i].late.max > late)
			late = s->vfs[i].late.max;
	}
	late += s->timer_late.max;
	count = count && allows(&s->params, late);
	for (k = 0; k < s->n_ops; k++)
		if (s->ops[k].type == OP_POLICY || s->ops[k].type == OP_SET_POLICY)
			count = count && allows(&s->ops[k].params, late);
	return count ? MONITOR_ALL : MONITOR_OTHERS;
}

/* Adds a run's figures, and judges what can only be judged at its end. */
static void conclude(struct running *r, struct monitor_result *result, struct proof *out)
{
	struct vgpu_core_view view;
	struct vgpu_vf_view v;
	uint32_t i;

	monitor_finish(r->host.monitor, result);
	vgpu_core_view(r->host.core, &view);
	out->decisions += r->host.switches;
	for (i = 0; i < r->host.n_vfs; i++) {
		vgpu_core_vf_view(r->host.core, i, &v);
		out->refused += v.state == VGPU_VF_ABSENT;
	}
	if (view.engine.evictions)
		vhost_fail(&r->host, "%s was evicted: %s", view.faulty,
			   vgpu_fault_text(view.last_fault));
	if (result->missed)
		vhost_fail(&r->host, "%" PRIu64 " of %" PRIu64 " budgets missed, by up to %.6f ms",
			   result->missed, result->deadlines, (double)result->worst_miss / 1e6);
	monitor_result_add(&out->result, result);
}

/* Returns what models the memory. In one scenario of four, changes of partitions are requested
 * beside the core; where tenants misbehave, forced changes, too. */
static enum vhost_memory_kind memory_of(const struct scenario *s)
{
	if (s->seed % 4 != 2 || s->n_vfs > VGPU_GPU_MAX_VFS || s->n_ops ||
	    s->until > LONGEST_CHANGING)
		return VHOST_MEMORY_CLEARS;
	return misbehaves(s) ? VHOST_MEMORY_FORCED : VHOST_MEMORY_CHANGES;
}

bool prove_scenario(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    uint64_t most_steps, struct proof *out)
{
	struct monitor_result result;
	struct vgpu_error err;
	struct running r;
	bool ok;
	int e;

	/* The checking wrapper supports one policy only: leave it out if operators change
	 * something. */
	e = running_start(&r, s, 0, policy, s->n_ops == 0, memory_of(s), peer_or_policy, &err);
	if (e < 0) {
		snprintf(out->violation, sizeof(out->violation), "%s", err.text);
		return false;
	}
	r.host.quiet = true;
	r.host.unchecked = false;
	r.host.most_steps = most_steps;
	r.host.monitor = monitor_new(&r.host, prove_judges(s));
	running_run(&r, s->until);
	conclude(&r, &result, out);
	ok = r.host.violations == 0;
	snprintf(out->violation, sizeof(out->violation), "%s", r.host.violation);
	monitor_free(r.host.monitor);
	running_finish(&r);
	if (ok) {
		out->result.strategy = fmax(out->result.strategy,
					    strategy_pays(s, policy, &out->decisions,
							  out->violation, sizeof(out->violation)));
		ok = out->violation[0] == '\0';
	}
	/* The relations take eight more runs. */
	if (ok && is_calm(s) && s->seed % 4 == 0)
		ok = relations_hold(s, policy, &out->decisions, out->violation,
				    sizeof(out->violation));
	return ok;
}

static bool fails(const struct scenario *s, const void *policy)
{
	struct proof proof = {.decisions = 0};

	return !prove_scenario(s, policy, MOST_STEPS, &proof);
}

/* Shrinks S, which fails, and keeps it in OUT. */
static void keep_failure(struct scenario *s, const struct vgpu_policy_ops *policy,
			 struct proof *out)
{
	struct proof last = {.decisions = 0};

	shrink(s, fails, policy);
	prove_scenario(s, policy, MOST_STEPS, &last);
	memcpy(out->violation, last.violation, sizeof(out->violation));
	out->failed = true;
	out->smallest = *s;
}

/* The objective of a climb: one of the bounds, or a strategy that pays. */
enum objective { TO_LAG = 0, TO_WAIT, TO_PAIRS, TO_LIMIT, TO_STRATEGY, OBJECTIVES };

/* Returns how near to its OBJECTIVE the policy comes in S: 0 to 1, or 2 if a promise was broken.
 * Adds the run to OUT. */
static double nearness(const struct scenario *s, const struct vgpu_policy_ops *policy,
		       enum objective objective, struct proof *out)
{
	struct proof one = {.decisions = 0};
	bool ok = prove_scenario(s, policy, CLIMB_STEPS, &one);
	const double ratios[] = {[TO_LAG] = one.result.lag,
				 [TO_WAIT] = one.result.wait,
				 [TO_PAIRS] = one.result.pairs,
				 [TO_LIMIT] = one.result.limit,
				 [TO_STRATEGY] = one.result.strategy};

	out->decisions += one.decisions;
	out->scenarios++;
	monitor_result_add(&out->result, &one.result);
	return ok ? ratios[objective] : 2;
}

/* Draws the scenario at which a climb begins: the highest of a few. *HEIGHT: its nearness(). */
static void begin_climb(const struct vgpu_policy_ops *policy, struct rng *rng,
			enum objective objective, struct scenario *best, double *height,
			struct proof *out)
{
	struct scenario next;
	double reached;
	unsigned n;

	*height = -1;
	for (n = 0; n < CLIMB_STARTS && *height < 2; n++) {
		climb_begin(rng, policy, &next);
		if (objective == TO_STRATEGY)
			strategy_begin(rng, policy, &next);
		reached = nearness(&next, policy, objective, out);
		if (reached > *height) {
			if (n > 0)
				scenario_free(best);
			*best = next;
			*height = reached;
		} else {
			scenario_free(&next);
		}
	}
}

/* Climbs until OUT has MOST decisions. Returns false if a promise was broken on the way. */
static bool climb(const struct vgpu_policy_ops *policy, struct rng *rng, enum objective objective,
		  uint64_t most, struct proof *out)
{
	struct scenario best, next;
	double height, reached;
	unsigned misses = 0;

	begin_climb(policy, rng, objective, &best, &height, out);
	/* Where nothing is judged, nearness() stays 0, and no change leads higher. */
	while (height > 0 && height < 2 && misses < CLIMB_MISSES && out->decisions < most) {
		scenario_copy(&next, &best);
		if (objective == TO_STRATEGY)
			strategy_step(rng, &next);
		else
			climb_step(rng, policy, &next);
		reached = nearness(&next, policy, objective, out);
		misses = reached > height ? 0 : misses + 1;
		if (reached < height) {
			scenario_free(&next);
			continue;
		}
		scenario_free(&best);
		best = next;
		height = reached;
	}
	if (height < 2) {
		scenario_free(&best);
		return true;
	}
	keep_failure(&best, policy, out);
	return false;
}

/* Tests a set of budgets at the boundary of admission. Returns false if the set is admitted, and
 * misses deadlines. */
static bool at_boundary(const struct vgpu_policy_ops *policy, struct rng *rng, struct proof *out)
{
	struct admission_options options;
	struct admission_study study;
	struct scenario s;

	admission_kind(rng, policy, &options);
	options.missing = &s;
	if (admission_study(&options, NULL, &study) < 0)
		abort(); /* cannot fail: nothing is saved */
	out->scenarios += study.runs;
	out->decisions += study.decisions;
	out->result.deadlines += study.deadlines;
	if (study.missed)
		keep_failure(&s, policy, out);
	return study.missed == 0;
}

/* Tests a random scenario, mostly a small one, because a bound is broken within a few turns.
 * Returns false if it fails. */
static bool random_one(const struct vgpu_policy_ops *policy, struct rng *rng, struct proof *out)
{
	struct scenario s;

	if (random_one_in(rng, 4))
		random_scenario(rng, policy, &s);
	else
		climb_begin(rng, policy, &s);
	out->scenarios++;
	if (!prove_scenario(&s, policy, MOST_STEPS, out)) {
		keep_failure(&s, policy, out);
		return false;
	}
	scenario_free(&s);
	return true;
}

void prove(const struct vgpu_policy_ops *policy, uint64_t decisions, uint64_t seed,
	   prove_progress *progress, struct proof *out)
{
	struct rng rng = {.state = seed}, climbing = {.state = ~seed};
	bool admits = strcmp(policy->name, "deadline") == 0 || strcmp(policy->name, "qos") == 0;
	double all = (double)decisions;
	uint64_t part = (uint64_t)(all * RANDOM_PART);
	bool ok = true;
	unsigned n;

	*out = (struct proof){.decisions = 0};
	while (ok && out->decisions < part) {
		ok = random_one(policy, &rng, out);
		if (progress)
			progress((double)out->decisions / all);
	}
	part += (uint64_t)(all * ADMISSION_PART);
	while (ok && admits && out->decisions < part)
		ok = at_boundary(policy, &climbing, out);
	for (n = (unsigned)(seed % OBJECTIVES); ok && out->decisions < decisions; n++) {
		ok = climb(policy, &climbing, n % OBJECTIVES,
			   out->decisions + (uint64_t)(all * CLIMB_PART), out);
		if (progress)
			progress((double)out->decisions / all);
	}
}
