/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "peer.h"
#include "prove.h"
#include "relations.h"

struct rng {
	uint64_t state;
};

/* splitmix64 (Steele, Lea and Flood, OOPSLA '14) */
static uint64_t draw(struct rng *r)
{
	uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static uint64_t between(struct rng *r, uint64_t min, uint64_t max)
{
	return min + draw(r) % (max - min + 1);
}

static bool one_in(struct rng *r, uint64_t n)
{
	return draw(r) % n == 0;
}

static struct vhost_range range(struct rng *r, vgpu_nsec min, vgpu_nsec max)
{
	vgpu_nsec a = between(r, min, max), b = between(r, min, max);

	return (struct vhost_range){a < b ? a : b, a < b ? b : a};
}

static void set_number(struct settings *s, const char *name, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	settings_set(s, name, text);
}

/* Parameters worth trying: near what people would set, now and then at the ends of the range. */
static void random_settings(struct rng *r, const struct vgpu_param *table, struct settings *out)
{
	uint32_t i;

	for (i = 0; table[i].name && out->n < SCENARIO_MAX_SETTINGS; i++) {
		const struct vgpu_param *p = &table[i];
		int64_t span = p->max - p->min;

		if (one_in(r, 2))
			continue;
		if (p->type == VGPU_PARAM_CHOICE) {
			settings_set(out, p->name, p->choices[draw(r) % (uint64_t)(p->max + 1)]);
			continue;
		}
		if (strcmp(p->name, "min_ppm") == 0 || strcmp(p->name, "max_ppm") == 0)
			set_number(out, p->name,
				   (int64_t)between(r, p->name[1] == 'i' ? 0 : 200000,
						    p->name[1] == 'i' ? 200000 : 1000000));
		else if (strcmp(p->name, "budget_us") == 0)
			set_number(out, p->name, (int64_t)between(r, 0, 6000));
		else if (strcmp(p->name, "period_us") == 0)
			set_number(out, p->name, (int64_t)between(r, 8000, 60000));
		else if (one_in(r, 16))
			set_number(out, p->name, p->max);
		else
			set_number(out, p->name,
				   p->min + (int64_t)(draw(r) %
						      (uint64_t)((span < 12000 ? span : 12000) +
								 1)));
	}
}

static void random_vf(struct rng *r, const struct vgpu_policy_ops *policy, bool faults,
		      struct scenario_vf *vf)
{
	static const enum vhost_work works[] = {VHOST_ALWAYS, VHOST_ALWAYS, VHOST_ALWAYS,
						VHOST_BURSTS, VHOST_BURSTS, VHOST_SLEEPER};

	vf->work = works[draw(r) % 6];
	if (one_in(r, 3)) { /* storms of wakes, tiny jobs */
		vf->burst = range(r, 1000, 100 * VGPU_USEC);
		vf->think = range(r, 0, 100 * VGPU_USEC);
	} else {
		vf->burst = range(r, 1000, 10 * VGPU_MSEC);
		vf->think = range(r, 0, 20 * VGPU_MSEC);
	}
	vf->late = range(r, 0, one_in(r, 4) ? 5 * VGPU_MSEC : 200 * VGPU_USEC);
	vf->save = range(r, 0, 300 * VGPU_USEC);
	if (one_in(r, 6)) {
		vf->rare = range(r, 0, 40 * VGPU_MSEC);
		vf->rare_ppm = 10000;
	}
	random_settings(r, policy->vf_params, &vf->params);
	if (!faults)
		return;
	vf->hang_ppm = one_in(r, 3) ? 2000 : 0;
	vf->reset_ppm = one_in(r, 3) ? 2000 : 0;
	vf->window_ppm = one_in(r, 2) ? 3000 : 0;
}

static const struct vgpu_policy_ops *any_policy(struct rng *r)
{
	unsigned n = 0;

	while (vgpu_builtin_policies[n])
		n++;
	return vgpu_builtin_policies[draw(r) % n];
}

enum { CALM, FAULTS, OPERATORS };

static void random_scenario(struct rng *r, const struct vgpu_policy_ops *policy, int level,
			    struct scenario *s)
{
	uint32_t i, n = (uint32_t)between(r, 1, 10);

	scenario_init(s, n);
	s->seed = draw(r) >> 1;
	snprintf(s->policy, sizeof(s->policy), "%s", policy->name);
	random_settings(r, policy->params, &s->params);
	s->load = range(r, 0, 150 * VGPU_USEC);
	s->run = range(r, 0, 50 * VGPU_USEC);
	s->init = range(r, 0, 20 * VGPU_MSEC);
	s->window = range(r, 0, 30 * VGPU_MSEC);
	s->scrub = range(r, 0, 10 * VGPU_MSEC);
	s->reset = range(r, 0, 100 * VGPU_MSEC);
	s->timer_late = range(r, 0, 80 * VGPU_USEC);
	/* All are up before the first has work: the comparison begins with equals. */
	s->work_from = level == CALM ? 2 * VGPU_SEC : 0;
	s->until = s->work_from + between(r, 2, 30) * VGPU_SEC;
	for (i = 0; i < n; i++)
		random_vf(r, policy, level != CALM, &s->vfs[i]);
	if (level == CALM)
		return;
	s->command_fails_ppm = one_in(r, 2) ? 50 : 0;
	s->reset_fails_ppm = one_in(r, 2) ? 100000 : 0;
	s->gpu_reset = one_in(r, 2);
	s->windows_stick = one_in(r, 10);
	for (i = 0; level == OPERATORS && i < 20; i++) {
		struct scenario_op *op = scenario_add_op(s);
		const struct vgpu_policy_ops *other;

		op->t = s->until * (i + 1) / 21;
		op->vf = (uint32_t)(draw(r) % n);
		switch (draw(r) % 5) {
		case 0:
			op->type = OP_POLICY;
			/* Away from it, and back. */
			other = one_in(r, 2) ? policy : any_policy(r);
			snprintf(op->policy, sizeof(op->policy), "%s", other->name);
			random_settings(r, other->params, &op->params);
			break;
		case 1:
			op->type = OP_SET;
			random_settings(r, policy->vf_params, &op->params);
			break;
		case 2:
			op->type = OP_SET_POLICY;
			random_settings(r, policy->params, &op->params);
			break;
		case 3:
			op->type = OP_RESTART;
			break;
		default:
			op->type = OP_RESET;
			break;
		}
	}
}

static bool is_calm(const struct scenario *s)
{
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++)
		if (s->vfs[i].hang_ppm || s->vfs[i].reset_ppm || s->vfs[i].window_ppm ||
		    s->vfs[i].work == VHOST_SCRIPT)
			return false;
	return !s->command_fails_ppm && !s->n_ops && s->work_from > 0;
}

/* What a late VF does to budgets is the operator's to say (late_us); scenarios that go beyond it
 * prove nothing about them. */
static bool budgets_count(const struct scenario *s, const struct vgpu_policy_ops *policy)
{
	vgpu_nsec late = s->timer_late.max, allowed = 500 * VGPU_USEC;
	int64_t values[VGPU_MAX_PARAMS];
	uint32_t i;

	vgpu_param_defaults(policy->params, values);
	settings_apply(&s->params, policy->params, false, values, NULL);
	for (i = 0; policy->params[i].name; i++) {
		if (strcmp(policy->params[i].name, "late_us") == 0)
			allowed = (vgpu_nsec)values[i] * VGPU_USEC;
		if (strcmp(policy->params[i].name, "admission") == 0 && values[i] != 0)
			return false; /* a test that others publish: it promises too much */
	}
	for (i = 0; i < s->n_vfs; i++) {
		if (s->vfs[i].late.max + s->timer_late.max > late)
			late = s->vfs[i].late.max + s->timer_late.max;
		if (s->vfs[i].rare_ppm)
			return false;
	}
	return late <= allowed;
}

bool prove_scenario(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    struct monitor_result *result, uint64_t *decisions, uint64_t *refused,
		    char *violation, size_t size)
{
	bool calm = is_calm(s), ok;
	struct vgpu_core_view view;
	struct vgpu_vf_view v;
	struct vgpu_error err;
	struct running r;
	uint32_t i;

	/* The wrapper sees one policy only; with operators' changes it is left out. */
	if (running_start(&r, s, 0, policy, s->n_ops == 0, peer_or_policy, &err) < 0) {
		snprintf(violation, size, "%.200s", err.text);
		return false;
	}
	r.host.quiet = true;
	r.host.unchecked = false;
	r.host.monitor = monitor_new(&r.host, calm);
	running_run(&r, s->until);
	monitor_result(r.host.monitor, result);
	vgpu_core_view(r.host.core, &view);
	*decisions += r.host.switches;
	for (i = 0; i < r.host.n_vfs; i++) {
		vgpu_core_vf_view(r.host.core, i, &v);
		*refused += v.state == VGPU_VF_ABSENT;
	}
	if (view.engine.evictions)
		vhost_fail(&r.host, "%s was evicted: %s", view.faulty,
			   vgpu_fault_text(view.last_fault));
	if (result->missed && calm && budgets_count(s, policy))
		vhost_fail(&r.host, "%" PRIu64 " of %" PRIu64 " budgets missed, by up to %.3f ms",
			   result->missed, result->deadlines, (double)result->worst_miss / 1e6);
	if (!calm || !budgets_count(s, policy))
		result->deadlines = result->missed = result->worst_miss = 0;
	ok = r.host.violations == 0;
	snprintf(violation, size, "%s", r.host.violation);
	monitor_free(r.host.monitor);
	running_finish(&r);
	/* These are eight runs more. */
	if (ok && calm && s->seed % 4 == 0)
		ok = relations_hold(s, policy, decisions, violation, size);
	return ok;
}

static bool fails(const struct scenario *s, const struct vgpu_policy_ops *policy)
{
	struct monitor_result result;
	uint64_t decisions = 0, refused = 0;
	char violation[256];

	return !prove_scenario(s, policy, &result, &decisions, &refused, violation,
			       sizeof(violation));
}

static void drop_vf(struct scenario *s, uint32_t vf)
{
	uint32_t i;
	size_t k, n = 0;

	free(s->vfs[vf].items);
	for (i = vf; i + 1 < s->n_vfs; i++)
		s->vfs[i] = s->vfs[i + 1];
	s->n_vfs--;
	for (k = 0; k < s->n_ops; k++) {
		if (s->ops[k].vf == vf && s->ops[k].type != OP_POLICY)
			continue;
		if (s->ops[k].vf > vf)
			s->ops[k].vf--;
		s->ops[n++] = s->ops[k];
	}
	s->n_ops = n;
}

/* One way of making a scenario smaller; false if it is exhausted. */
static bool reduce(struct scenario *s, uint32_t step)
{
	uint32_t vf = step / 8, what = step % 8;

	if (step < 8) {
		switch (step) {
		case 0:
			s->until = s->work_from + (s->until - s->work_from) / 2;
			return true;
		case 1:
			s->n_ops /= 2;
			return true;
		case 2:
			s->params.n = 0;
			return true;
		case 3:
			s->command_fails_ppm = s->reset_fails_ppm = 0;
			s->gpu_reset = s->windows_stick = false;
			return true;
		case 4:
			s->load = s->run = s->timer_late = (struct vhost_range){0, 0};
			return true;
		case 5:
			s->init = s->window = s->scrub = s->reset = (struct vhost_range){0, 0};
			return true;
		case 6:
			if (s->n_ops)
				memmove(s->ops, s->ops + 1, --s->n_ops * sizeof(*s->ops));
			return true;
		default:
			if (s->n_ops)
				s->n_ops--;
			return true;
		}
	}
	vf--;
	if (vf >= s->n_vfs)
		return false;
	switch (what) {
	case 0:
		if (s->n_vfs > 1)
			drop_vf(s, vf);
		return true;
	case 1:
		s->vfs[vf].params.n = 0;
		return true;
	case 2:
		s->vfs[vf].hang_ppm = s->vfs[vf].reset_ppm = s->vfs[vf].window_ppm = 0;
		return true;
	case 3:
		s->vfs[vf].rare_ppm = 0;
		s->vfs[vf].rare = (struct vhost_range){0, 0};
		return true;
	case 4:
		s->vfs[vf].late = (struct vhost_range){0, 0};
		return true;
	case 5:
		s->vfs[vf].save = (struct vhost_range){0, 0};
		return true;
	case 6:
		s->vfs[vf].work = VHOST_NEVER;
		return true;
	default:
		s->vfs[vf].work = VHOST_ALWAYS;
		s->vfs[vf].burst = s->vfs[vf].think = (struct vhost_range){0, 0};
		return true;
	}
}

static bool same(const struct scenario *a, const struct scenario *b)
{
	char *ta = NULL, *tb = NULL;
	size_t na = 0, nb = 0;
	FILE *fa = open_memstream(&ta, &na), *fb = open_memstream(&tb, &nb);
	bool equal;

	scenario_write(a, fa);
	scenario_write(b, fb);
	fclose(fa);
	fclose(fb);
	equal = na == nb && memcmp(ta, tb, na) == 0;
	free(ta);
	free(tb);
	return equal;
}

/* Runs that shrinking may take: each of them takes as long as the failing one at the most. */
#define SHRINK_RUNS 600

/* Greedily, until no single step helps any more (after Zeller's ddmin). */
static void shrink(struct scenario *s, const struct vgpu_policy_ops *policy)
{
	struct scenario smaller;
	bool progress = true;
	uint32_t step, runs = 0;

	while (progress && runs < SHRINK_RUNS) {
		progress = false;
		for (step = 0;; step++) {
			scenario_copy(&smaller, s);
			if (!reduce(&smaller, step)) {
				scenario_free(&smaller);
				break;
			}
			if (!same(&smaller, s) && runs++ < SHRINK_RUNS && fails(&smaller, policy)) {
				scenario_free(s);
				*s = smaller;
				progress = true;
			} else {
				scenario_free(&smaller);
			}
		}
	}
}

void prove(const struct vgpu_policy_ops *policy, uint64_t decisions, uint64_t seed,
	   prove_progress *progress, struct proof *out)
{
	struct monitor_result result;
	struct rng rng = {.state = seed};
	struct scenario s;
	bool ok;

	*out = (struct proof){.decisions = 0};
	while (out->decisions < decisions) {
		random_scenario(&rng, policy, (int)(draw(&rng) % 3), &s);
		ok = prove_scenario(&s, policy, &result, &out->decisions, &out->refused,
				    out->violation, sizeof(out->violation));
		out->scenarios++;
		if (!ok) {
			shrink(&s, policy);
			prove_scenario(&s, policy, &result, &out->decisions, &out->refused,
				       out->violation, sizeof(out->violation));
			out->failed = true;
			out->smallest = s;
			return;
		}
		out->result.lag = fmax(out->result.lag, result.lag);
		out->result.wait = fmax(out->result.wait, result.wait);
		out->result.deadlines += result.deadlines;
		scenario_free(&s);
		if (progress)
			progress((double)out->decisions / (double)decisions);
	}
}

/* A set as in the reference study: 2 to 8 servers that always have work. */
static void random_set(struct rng *r, const struct vgpu_policy_ops *policy, vgpu_nsec switch_ns,
		       vgpu_nsec min_slice, vgpu_nsec late, struct scenario *s)
{
	static const int64_t periods_ms[] = {8, 16, 33, 50, 100};
	uint32_t n = (uint32_t)between(r, 2, 8), i;
	double parts[8], all = 0, load = (double)between(r, 300, 1000) / 1000;
	bool qos = strcmp(policy->name, "qos") == 0;

	scenario_init(s, n);
	s->seed = draw(r) >> 1;
	snprintf(s->policy, sizeof(s->policy), "%s", policy->name);
	settings_set(&s->params, "cap_pct", "100");
	set_number(&s->params, "late_us", (int64_t)(late / VGPU_USEC));
	/* The switch varies; what it may take at the most is what is known of it. */
	s->load = (struct vhost_range){switch_ns / 4, switch_ns / 2};
	s->min_slice = min_slice;
	s->work_from = 500 * VGPU_MSEC;
	s->until = s->work_from + 1500 * VGPU_MSEC;
	for (i = 0; i < n; i++)
		all += parts[i] = (double)between(r, 1, 1000);
	for (i = 0; i < n; i++) {
		struct scenario_vf *vf = &s->vfs[i];
		int64_t period = periods_ms[draw(r) % 5];
		double share = load * parts[i] / all;

		vf->late = (struct vhost_range){0, late};
		vf->save = (struct vhost_range){switch_ns / 4, switch_ns - switch_ns / 2};
		if (qos) {
			set_number(&vf->params, "min_ppm", (int64_t)(share * 1e6));
			set_number(&vf->params, "period_ms", period);
		} else {
			set_number(&vf->params, "budget_us",
				   (int64_t)(share * (double)period * 1000));
			set_number(&vf->params, "period_us", period * 1000);
		}
	}
}

/* False if the policy refuses a part of it. */
static bool run_set(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    struct monitor_result *result)
{
	struct vgpu_vf_view v;
	struct vgpu_error err;
	struct running r;
	bool admitted = true;
	uint32_t i;

	if (running_start(&r, s, 0, policy, false, peer_or_policy, &err) < 0)
		abort(); /* the parameters are in their ranges */
	for (i = 0; i < r.host.n_vfs; i++) {
		vgpu_core_vf_view(r.host.core, i, &v);
		admitted = admitted && v.state != VGPU_VF_ABSENT;
	}
	r.host.monitor = monitor_new(&r.host, true);
	if (admitted)
		running_run(&r, s->until);
	monitor_result(r.host.monitor, result);
	monitor_free(r.host.monitor);
	running_finish(&r);
	return admitted;
}

void prove_admission(const struct vgpu_policy_ops *policy, uint64_t sets, uint64_t seed,
		     vgpu_nsec switch_ns, vgpu_nsec min_slice, vgpu_nsec late, const char *mode,
		     prove_progress *progress, struct admission_study *out)
{
	struct rng rng = {.state = seed};
	struct monitor_result result;
	struct scenario s;
	bool admitted;
	uint64_t k;

	*out = (struct admission_study){.sets = sets};
	for (k = 0; k < sets; k++) {
		random_set(&rng, policy, switch_ns, min_slice, late, &s);
		if (mode)
			settings_set(&s.params, "admission", mode);
		admitted = run_set(&s, policy, &result);
		out->admitted += admitted;
		out->missed += admitted && result.missed > 0;
		out->deadlines += result.deadlines;
		if (result.worst_miss > out->worst_miss)
			out->worst_miss = result.worst_miss;
		if (mode == NULL) {
			/* Would it have been kept? */
			settings_set(&s.params, "admission", "sum");
			if (!admitted && run_set(&s, policy, &result) && result.missed == 0)
				out->kept_but_refused++;
		}
		scenario_free(&s);
		if (progress && k % 64 == 0)
			progress((double)k / (double)sets);
	}
}
