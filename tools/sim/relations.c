/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"
#include "relations.h"

#define MAX_VFS 16u
#define MAX_TURNS 4096u

/* The results of a run. */
struct outcome {
	uint32_t n;
	uint64_t hash, decisions;
	bool judged[MAX_VFS]; /* the VF was active and had work */
	double service[MAX_VFS], bound[MAX_VFS];
	struct vhost_dispatch *turns;
	size_t n_turns;
};

static void run(const struct scenario *s, const struct vgpu_policy_ops *policy, struct outcome *o)
{
	struct vgpu_vf_view v;
	struct vgpu_error err;
	struct running r;
	uint32_t i;

	*o = (struct outcome){.n = s->n_vfs, .turns = calloc(MAX_TURNS, sizeof(*o->turns))};
	if (running_start(&r, s, 0, policy, false, VHOST_MEMORY_NONE, peer_or_policy, &err) < 0)
		abort(); /* this scenario has run before */
	running_run(&r, s->work_from);
	r.host.log = o->turns;
	r.host.log_max = MAX_TURNS;
	running_run(&r, s->until);
	o->hash = r.host.hash;
	o->decisions = r.host.switches;
	o->n_turns = r.host.log_n;
	for (i = 0; i < o->n; i++) {
		vgpu_core_vf_view(r.host.core, i, &v);
		o->judged[i] = v.state == VGPU_VF_ACTIVE && v.has_work;
		o->service[i] = (double)(v.ledger.charged_ns + v.pending_ns);
		o->bound[i] = (double)v.bound.max_lag;
	}
	running_finish(&r);
}

static bool has(const struct vgpu_param *table, const char *name)
{
	while (table->name && strcmp(table->name, name) != 0)
		table++;
	return table->name;
}

static bool is_time(const struct vgpu_param *p)
{
	return strcmp(p->unit, "us") == 0 || strcmp(p->unit, "ms") == 0;
}

static bool is_weight(const struct vgpu_param *p)
{
	return strcmp(p->name, "weight") == 0;
}

/* Doubles the parameters for which IS returns true. Returns false if one would leave its range. */
static bool twice(struct settings *s, const struct vgpu_param *table,
		  bool (*is)(const struct vgpu_param *p))
{
	int64_t values[VGPU_MAX_PARAMS];
	char text[24];
	uint32_t i;

	vgpu_param_defaults(table, values);
	settings_apply(s, table, false, values, NULL);
	for (i = 0; table[i].name; i++) {
		if (!is(&table[i]))
			continue;
		if (2 * values[i] > table[i].max)
			return false;
		vgpu_param_text(&table[i], 2 * values[i], text, sizeof(text));
		if (!settings_set(s, table[i].name, text))
			return false;
	}
	return true;
}

/* Returns whether a guarantee is given as a rate, which would have to be halved at half the pace.
 */
static bool has_rate(const struct settings *s, const struct vgpu_param *table)
{
	int64_t values[VGPU_MAX_PARAMS];
	uint32_t i;

	vgpu_param_defaults(table, values);
	settings_apply(s, table, false, values, NULL);
	for (i = 0; table[i].name; i++)
		if (strcmp(table[i].name, "fps") == 0 && values[i] > 0)
			return true;
	return false;
}

static void stretch(struct vhost_range *r)
{
	r->min *= 2;
	r->max *= 2;
}

/* The relations. Each changes S, and writes the new number of each VF to TO; it returns false if it
 * does not apply. */

static bool again(struct scenario *, const struct vgpu_policy_ops *, uint32_t *)
{
	return true;
}

static bool chained(struct scenario *s, const struct vgpu_policy_ops *, uint32_t *)
{
	s->chains = !s->chains;
	return true;
}

static bool other_order(struct scenario *s, const struct vgpu_policy_ops *, uint32_t *to)
{
	uint32_t i, k;

	for (i = 0, k = s->n_vfs - 1; i < k; i++, k--) {
		struct scenario_vf vf = s->vfs[i];

		s->vfs[i] = s->vfs[k];
		s->vfs[k] = vf;
	}
	for (i = 0; i < s->n_vfs; i++)
		to[i] = s->n_vfs - 1 - i;
	return s->n_vfs > 1;
}

static bool other_weights(struct scenario *s, const struct vgpu_policy_ops *policy, uint32_t *)
{
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++)
		if (!twice(&s->vfs[i].params, policy->vf_params, is_weight))
			return false;
	return has(policy->vf_params, "weight");
}

static bool other_pace(struct scenario *s, const struct vgpu_policy_ops *policy, uint32_t *)
{
	uint32_t i;

	stretch(&s->load);
	stretch(&s->run);
	stretch(&s->init);
	stretch(&s->window);
	stretch(&s->scrub);
	stretch(&s->timer_late);
	s->min_slice *= 2;
	s->min_run *= 2;
	s->work_from *= 2;
	s->until *= 2;
	for (i = 0; i < s->n_vfs; i++) {
		stretch(&s->vfs[i].late);
		stretch(&s->vfs[i].save);
		if (has_rate(&s->vfs[i].params, policy->vf_params) ||
		    !twice(&s->vfs[i].params, policy->vf_params, is_time))
			return false;
	}
	return twice(&s->params, policy->params, is_time);
}

static bool one_more(struct scenario *s, const struct vgpu_policy_ops *, uint32_t *)
{
	s->vfs = realloc(s->vfs, (s->n_vfs + 1) * sizeof(*s->vfs));
	s->vfs[s->n_vfs++] = (struct scenario_vf){.work = VHOST_NEVER};
	return true;
}

/* Adds a change that asks for more than is possible. */
static bool refused(struct scenario *s, const struct vgpu_policy_ops *policy, uint32_t *)
{
	struct scenario_op *op = scenario_add_op(s);

	*op = (struct scenario_op){.t = (s->work_from + s->until) / 2, .type = OP_SET};
	settings_set(&op->params, "min_ppm", "1000000");
	settings_set(&op->params, "max_ppm", "900000");
	settings_set(&op->params, "budget_us", "20000");
	settings_set(&op->params, "period_us", "10000");
	return has(policy->vf_params, "min_ppm") || has(policy->vf_params, "budget_us");
}

/* Prepares strict slots, held empty when unused, with constant room for the switch, and contexts of
 * one size. */
static bool strict_slots(struct scenario *s, const struct vgpu_policy_ops *policy)
{
	vgpu_nsec save = 0;
	char text[24];
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++)
		save = s->vfs[i].save.max > save ? s->vfs[i].save.max : save;
	for (i = 0; i < s->n_vfs; i++)
		s->vfs[i].save = (struct vhost_range){save, save};
	snprintf(text, sizeof(text), "%" PRIu64, (s->load.max + s->run.max + save) / VGPU_USEC + 1);
	settings_set(&s->params, "idle", "hold");
	settings_set(&s->params, "slice", "fixed");
	settings_set(&s->params, "slice_us", "4000"); /* turns have one part */
	settings_set(&s->params, "switch_us", text);
	return has(policy->params, "switch_us");
}

/* Changes what the other VFs do: the turns of VF 0 must not depend on that. */
static bool other_neighbours(struct scenario *s, const struct vgpu_policy_ops *, uint32_t *)
{
	static const enum vhost_work works[] = {VHOST_NEVER, VHOST_BURSTS, VHOST_SLEEPER};
	uint32_t i;

	for (i = 1; i < s->n_vfs; i++) {
		s->vfs[i].work = works[(s->seed + i) % 3];
		s->vfs[i].burst = (struct vhost_range){300 * VGPU_USEC, 3 * VGPU_MSEC};
		s->vfs[i].think = (struct vhost_range){100 * VGPU_USEC, 9 * VGPU_MSEC};
	}
	return s->n_vfs > 1;
}

/* What must be the same. */

static bool same_hash(const struct outcome *a, const struct outcome *b, const uint32_t *, char *why,
		      size_t size)
{
	if (a->hash == b->hash)
		return true;
	snprintf(why, size, "decisions differ");
	return false;
}

/* Returns whether shares are the same. They may differ by as much as the bounds of both runs allow;
 * if none is stated, by 2 % of all, plus the part of it that two of the longest slices are. */
static bool same_shares(const struct outcome *a, const struct outcome *b, const uint32_t *to,
			char *why, size_t size)
{
	double all_a = 0, all_b = 0, lag_a = 0, lag_b = 0, allowed;
	bool stated = true;
	uint32_t i;

	for (i = 0; i < a->n; i++) {
		if (!a->judged[i] || !b->judged[to[i]])
			return true; /* a VF was not admitted: nothing to compare */
		all_a += a->service[i];
		all_b += b->service[to[i]];
		lag_a += a->bound[i];
		lag_b += b->bound[to[i]];
		stated = stated && a->bound[i] < (double)VGPU_NEVER;
	}
	for (i = 0; i < a->n; i++) {
		double x = a->service[i] / all_a, y = b->service[to[i]] / all_b;

		allowed = (a->bound[i] + x * lag_a) / all_a + (b->bound[to[i]] + y * lag_b) / all_b;
		if (fabs(x - y) <= (stated ? allowed : 0.02 + 1e9 / all_a))
			continue;
		snprintf(why, size, "VF %u has %.3f %% instead of %.3f %%", i, 100 * y, 100 * x);
		return false;
	}
	return true;
}

/* Writes the turns of VF 0 after FROM (a second after the start, when the core has learned times)
 * to OUT. Returns how many. */
static size_t turns_of_0(const struct outcome *o, vgpu_nsec from, struct vhost_dispatch *out)
{
	size_t i, n = 0;

	for (i = 0; i < o->n_turns; i++)
		if (o->turns[i].vf == 0 && o->turns[i].start > from &&
		    o->turns[i].end != VGPU_NEVER)
			out[n++] = o->turns[i];
	return n;
}

static bool same_turns(const struct outcome *a, const struct outcome *b, const uint32_t *,
		       char *why, size_t size)
{
	static struct vhost_dispatch turns[2][MAX_TURNS];
	vgpu_nsec from = a->n_turns ? a->turns[0].start + VGPU_SEC : 0;
	size_t n = turns_of_0(a, from, turns[0]), m = turns_of_0(b, from, turns[1]), i;

	for (i = 0; i < n && i < m; i++) {
		const struct vhost_dispatch *x = &turns[0][i], *y = &turns[1][i];
		vgpu_nsec since_x = x->start - turns[0][0].start;
		vgpu_nsec since_y = y->start - turns[1][0].start;

		if (since_x == since_y && x->end - x->start == y->end - y->start)
			continue;
		snprintf(why, size,
			 "VF 0's turn %zu begins at %" PRIu64 " instead of %" PRIu64
			 " ns, and takes %" PRIu64 " instead of %" PRIu64 " ns",
			 i, since_y, since_x, y->end - y->start, x->end - x->start);
		return false;
	}
	return true;
}

static const struct relation {
	const char *name;
	bool (*prepare)(struct scenario *s, const struct vgpu_policy_ops *policy); /* or NULL */
	bool (*change)(struct scenario *s, const struct vgpu_policy_ops *policy, uint32_t *to);
	bool (*same)(const struct outcome *a, const struct outcome *b, const uint32_t *to,
		     char *why, size_t size);
} relations[] = {
	{"once more", NULL, again, same_hash},
	{"with a change that is refused", NULL, refused, same_hash},
	{"on a GPU that takes commands in another way", NULL, chained, same_hash},
	{"in another order", NULL, other_order, same_shares},
	{"with twice the weights", NULL, other_weights, same_shares},
	{"at half the pace", NULL, other_pace, same_shares},
	{"beside one that never has work", NULL, one_more, same_shares},
	{"beside other neighbours", strict_slots, other_neighbours, same_turns},
};

/* Makes the scenario with which relations begin: as S, but all VFs always have work, and all times
 * are constant. */
static void plain(struct scenario *to, const struct scenario *s,
		  const struct vgpu_policy_ops *policy)
{
	uint32_t i;

	scenario_copy(to, s);
	/* The policy promises no share of reclaimed time: the first of equal VFs may get all of
	 * it. */
	if (has(policy->params, "reclaim"))
		settings_set(&to->params, "reclaim", "off");
	to->until = to->work_from + 10 * VGPU_SEC;
	to->load.min = to->load.max;
	to->run.min = to->run.max;
	to->timer_late = (struct vhost_range){0, 0};
	to->init = (struct vhost_range){0, 0};
	to->window = (struct vhost_range){0, 0};
	to->scrub = (struct vhost_range){0, 0};
	for (i = 0; i < to->n_vfs; i++) {
		struct scenario_vf *vf = &to->vfs[i];

		vf->work = VHOST_ALWAYS;
		vf->window = (struct vhost_range){0, 0};
		vf->late.min = vf->late.max = vf->late.max < 200000 ? vf->late.max : 200000;
		vf->save.min = vf->save.max;
		vf->rare_ppm = 0;
	}
}

static bool holds(const struct relation *relation, const struct scenario *s,
		  const struct vgpu_policy_ops *policy, uint64_t *decisions, char *why, size_t size)
{
	struct scenario base, changed;
	struct outcome a, b;
	uint32_t to[MAX_VFS + 1], i;
	bool same = true;

	for (i = 0; i <= MAX_VFS; i++)
		to[i] = i;
	plain(&base, s, policy);
	same = relation->prepare && !relation->prepare(&base, policy);
	scenario_copy(&changed, &base);
	same = same || !relation->change(&changed, policy, to);
	if (!same) {
		run(&base, policy, &a);
		run(&changed, policy, &b);
		*decisions += a.decisions + b.decisions;
		same = relation->same(&a, &b, to, why, size);
		free(a.turns);
		free(b.turns);
	}
	scenario_free(&changed);
	scenario_free(&base);
	return same;
}

bool relations_hold(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    uint64_t *decisions, char *violation, size_t size)
{
	char why[160];
	size_t k;

	for (k = 0; s->n_vfs < MAX_VFS && k < sizeof(relations) / sizeof(relations[0]); k++) {
		if (holds(&relations[k], s, policy, decisions, why, sizeof(why)))
			continue;
		snprintf(violation, size, "%s, %s: %s", policy->name, relations[k].name, why);
		return false;
	}
	return true;
}
