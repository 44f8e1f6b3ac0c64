/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "entitled.h"
#include "peer.h"
#include "strategy.h"

/* What a strategy may gain, or cost another VF, as a part of what the VF has without it. */
#define ALLOWED 0.02

/*
 * Where a strategy seems to pay, it is compared with honest runs in pairs, each with its own seed:
 * how ticks meet turns among VFs that always work depends on the seed. The strategy pays if the
 * mean is above ALLOWED by SURE standard errors.
 */
#define FEWEST_PAIRS 12
#define MOST_PAIRS 64
#define SURE 4.0

/* Below the grace time of 50 ms: a VF that stops later hangs. */
#define LATEST (45 * VGPU_MSEC)

/* The shortest scenario that is judged: in a shorter one, a single turn would be too large a part
 * of a VF's service. */
#define LEAST (5 * VGPU_SEC)

/* How an honest VF stops, in turn. */
static const vgpu_nsec jitter[] = {0, 50 * VGPU_USEC, 100 * VGPU_USEC};

#define HONEST (sizeof(jitter) / sizeof(jitter[0]))

/* The results of a run. */
struct outcome {
	double *had;	 /* for each VF, the sum of its charges and of the policy's debt to it */
	double *shares;	 /* of each VF, beside all others */
	double all;	 /* service of all VFs */
	double sleepers; /* of VFs that do not always work, and their switches */
	bool promised;	 /* some VF has a guarantee or a limit, which shares do not tell */
};

/* The sum of a figure, and of its squares. */
struct sample {
	double sum, squares;
};

/* What one VF gains or loses. `all`: relative to the honest run. `beside`: the same, but a loss
 * does not count the time that VFs that sleep have gained. `ideal`: relative to what an ideal fluid
 * server would give the VF in the honest run. */
struct paid {
	struct sample all, beside, ideal;
};

/* Returns the longest world switch that one turn of VF I needs. */
static double switch_of(const struct scenario *s, uint32_t i)
{
	return (double)(s->load.max + s->run.max + s->vfs[i].save.max);
}

static void run(const struct scenario *s, const struct vgpu_policy_ops *policy, uint32_t strategist,
		struct outcome *o, uint64_t *decisions)
{
	struct vgpu_vf_view v;
	struct vgpu_error err;
	struct running r;
	double served;
	uint32_t i;

	if (running_start(&r, s, 0, policy, false, VHOST_MEMORY_NONE, peer_or_policy, &err) < 0)
		abort(); /* this scenario has run before */
	running_run(&r, s->until);
	o->had = calloc(s->n_vfs, sizeof(*o->had));
	o->shares = calloc(s->n_vfs, sizeof(*o->shares));
	o->all = o->sleepers = 0;
	o->promised = false;
	for (i = 0; i < s->n_vfs; i++) {
		served = (double)vhost_service(&r.host, i);
		vgpu_core_vf_view(r.host.core, i, &v);
		o->had[i] = served - (double)v.pending_ns + (double)v.lag_ns;
		o->all += served;
		o->promised |= v.bound.budget > 0 || v.bound.limit_ppm > 0;
		if (v.share_denominator > 0)
			o->shares[i] = (double)v.share_numerator / (double)v.share_denominator;
		if (i == strategist || s->vfs[i].work == VHOST_ALWAYS)
			continue;
		o->sleepers += served + 2 * (double)v.ledger.dispatches * switch_of(s, i);
	}
	*decisions += r.host.switches;
	running_finish(&r);
}

static void behave(struct scenario_vf *vf, vgpu_nsec late)
{
	vf->work = VHOST_ALWAYS;
	vf->late = (struct vhost_range){0, late};
	vf->late_span = (struct vhost_range){0, 0};
	vf->rare_ppm = 0;
}

static void note(struct sample *s, double value)
{
	s->sum += value;
	s->squares += value * value;
}

static double mean_of(const struct sample *s, double n)
{
	return s->sum / n;
}

/* Returns the mean of N values, less SURE standard errors. */
static double at_least(const struct sample *s, double n)
{
	double mean = mean_of(s, n), varies = s->squares / n - mean * mean;

	return mean - SURE * sqrt(fmax(varies, 0) / (n - 1));
}

/* Adds what a pair of runs shows for VF I, which an ideal fluid server would give IDEAL. A gain is
 * a larger part of the service of all VFs, so that fewer switches alone are no gain. A loss does
 * not count if the time goes to VFs that sleep, and now wake at better times for them. */
static void compare(const struct outcome *before, const struct outcome *after, uint32_t i,
		    double ideal, bool gains, struct paid *p)
{
	double had = before->had[i], has = after->had[i] * (gains ? before->all / after->all : 1);
	double sign = gains ? 1 : -1, to_others = gains ? 0 : after->sleepers - before->sleepers;

	if (had <= 0)
		return;
	note(&p->all, sign * (has - had) / had);
	note(&p->beside, (sign * (has - had) - to_others) / had);
	note(&p->ideal, sign * (has - ideal) / ideal);
}

/* Writes to IDEAL what an ideal fluid server would give each VF in the honest run S, which had this
 * outcome. If the policy does not share by constant weights among all VFs, writes what each VF had.
 * Some policies round each share to millionths. */
static void find_ideal(const struct scenario *s, const struct outcome *o, double *ideal)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++)
		sum += o->shares[i];
	if (fabs(sum - 1) < 1e-6 * (s->n_vfs + 1) && !o->promised && s->n_ops == 0 &&
	    entitled(s, o->shares, o->all / (double)(s->until - s->work_from), ideal))
		return;
	memcpy(ideal, o->had, s->n_vfs * sizeof(*ideal));
}

/* Returns whether strategies are judged under POLICY: it charges, and serves every VF with work.
 * Under `strict` a missed slot is not made up for, whichever VF caused that. */
static bool is_judged(const struct vgpu_policy_ops *policy)
{
	const uint64_t serves = VGPU_PROMISE_WORK_CONSERVING | VGPU_PROMISE_GUARANTEE;

	return policy->promises & serves &&
	       policy->promises & ~(uint64_t)VGPU_PROMISE_WORK_CONSERVING;
}

/* Returns the VF that has a strategy, or n_vfs. */
static uint32_t strategist_of(const struct scenario *s)
{
	uint32_t i = 0;

	while (i < s->n_vfs && !s->vfs[i].strategist)
		i++;
	return i;
}

/* Runs the Kth pair, and adds what each VF gains or loses to PAID. */
static void run_pair(const struct scenario *s, const struct vgpu_policy_ops *policy, uint32_t k,
		     struct paid *paid, uint64_t *decisions)
{
	uint32_t strategist = strategist_of(s), i;
	struct outcome before, after;
	struct scenario pair;
	double *ideal = calloc(s->n_vfs, sizeof(*ideal));

	scenario_copy(&pair, s);
	pair.seed += k;
	run(&pair, policy, strategist, &after, decisions);
	behave(&pair.vfs[strategist], jitter[k % HONEST]);
	run(&pair, policy, strategist, &before, decisions);
	find_ideal(&pair, &before, ideal);
	for (i = 0; i < s->n_vfs; i++)
		if (i == strategist || s->vfs[i].work == VHOST_ALWAYS)
			compare(&before, &after, i, ideal[i], i == strategist, &paid[i]);
	free(ideal);
	free(before.had);
	free(before.shares);
	free(after.had);
	free(after.shares);
	scenario_free(&pair);
}

/* Returns the largest mean over N pairs of what a VF gains or loses; SURELY: less the standard
 * errors. Sets *VF to that VF. */
static double most_paid(const struct paid *paid, uint32_t n_vfs, double n, bool surely,
			uint32_t *vf)
{
	double (*value)(const struct sample *, double) = surely ? at_least : mean_of;
	double worst = 0, part;
	uint32_t i;

	for (i = 0; i < n_vfs; i++) {
		part = fmin(fmin(value(&paid[i].all, n), value(&paid[i].beside, n)),
			    value(&paid[i].ideal, n));
		if (part > worst)
			*vf = i;
		worst = fmax(worst, part);
	}
	return worst;
}

double strategy_pays(const struct scenario *s, const struct vgpu_policy_ops *policy,
		     uint64_t *decisions, char *why, size_t size)
{
	uint32_t strategist = strategist_of(s), i, n = 1;
	struct paid *paid;
	bool beside = false;
	double mean;

	for (i = 0; i < s->n_vfs; i++)
		beside |= i != strategist && s->vfs[i].work == VHOST_ALWAYS;
	if (!is_judged(policy) || strategist == s->n_vfs || !beside ||
	    s->until < s->work_from + LEAST)
		return 0;
	paid = calloc(s->n_vfs, sizeof(*paid));
	run_pair(s, policy, 0, paid, decisions);
	mean = most_paid(paid, s->n_vfs, 1, false, &i);
	while (mean > ALLOWED && n < MOST_PAIRS) {
		run_pair(s, policy, n++, paid, decisions);
		mean = most_paid(paid, s->n_vfs, n, false, &i);
		if (n >= FEWEST_PAIRS && most_paid(paid, s->n_vfs, n, true, &i) > ALLOWED) {
			snprintf(why, size,
				 "VF %u %s %.1f %% by the behaviour of VF %u, in the mean of %u "
				 "pairs of runs; at least %.1f %%",
				 i, i == strategist ? "gains" : "loses", mean * 100, strategist, n,
				 most_paid(paid, s->n_vfs, n, true, &i) * 100);
			free(paid);
			return mean / ALLOWED;
		}
	}
	free(paid);
	return fmin(mean / ALLOWED, 1);
}

/* Changes to the VF that has a strategy. */

static void stops_late(struct rng *r, struct scenario_vf *vf)
{
	vf->rare.max = random_one_in(r, 2) ? random_between(r, VGPU_MSEC, LATEST)
					   : random_magnitude(r, 100 * VGPU_USEC, LATEST);
	vf->rare.min = random_one_in(r, 2) ? vf->rare.max : vf->rare.max / 2;
	vf->rare_ppm = random_one_in(r, 2) ? 1000000 : (uint32_t)random_between(r, 0, 10) * 100000;
}

static void stops_late_by_habit(struct rng *r, struct scenario_vf *vf)
{
	vf->late.max = random_magnitude(r, VGPU_USEC, LATEST);
	vf->late.min = random_one_in(r, 2) ? vf->late.max : vf->late.max / 2;
}

static void works_always(struct rng *, struct scenario_vf *vf)
{
	vf->work = VHOST_ALWAYS;
}

static void hides(struct rng *, struct scenario_vf *vf)
{
	vf->work = VHOST_SLEEPER;
}

static void pauses(struct rng *r, struct scenario_vf *vf)
{
	vf->work = VHOST_BURSTS;
	vf->burst.max = random_magnitude(r, 500 * VGPU_USEC, 200 * VGPU_MSEC);
	vf->burst.min = random_one_in(r, 2) ? vf->burst.max : vf->burst.max / 2;
	vf->think.max = random_magnitude(r, 10 * VGPU_USEC, 20 * VGPU_MSEC);
	vf->think.min = random_one_in(r, 2) ? vf->think.max : vf->think.max / 2;
}

/* Makes a VF work at ticks, as a game does, with more or less work in each tick than there is time
 * for. */
static void keeps_time(struct rng *r, struct scenario_vf *vf)
{
	vf->work = VHOST_PERIODIC;
	vf->period.max = random_magnitude(r, 4 * VGPU_MSEC, 60 * VGPU_MSEC);
	vf->period.min = vf->period.max;
	vf->burst.max = random_magnitude(r, VGPU_MSEC, 100 * VGPU_MSEC);
	vf->burst.min = vf->burst.max;
}

/* Changes to another VF. */

static void is_a_game(struct rng *r, struct scenario_vf *vf)
{
	vf->work = VHOST_PERIODIC;
	vf->period.max = VGPU_SEC / (random_one_in(r, 2) ? 60 : 90);
	vf->period.min = vf->period.max;
	vf->burst.max = random_between(r, VGPU_MSEC, 12 * VGPU_MSEC);
	vf->burst.min = vf->burst.max / 2;
}

static void (*const of_strategist[])(struct rng *r, struct scenario_vf *vf) = {
	stops_late, stops_late, stops_late_by_habit, works_always, works_always,
	hides,	    pauses,	keeps_time,
};

/* Pauses, and is so slow to stop that it may have work again, or others may wake, before it has
 * stopped: not so late that it is fined, because others gain what a VF pays. */
static void pauses_and_stops_slowly(struct rng *r, struct scenario_vf *vf)
{
	pauses(r, vf);
	vf->late.max = random_between(r, 0, 249 * VGPU_USEC);
	vf->late.min = random_one_in(r, 2) ? vf->late.max : 0;
}

static void (*const of_others[])(struct rng *r, struct scenario_vf *vf) = {
	works_always, is_a_game, is_a_game, pauses, pauses_and_stops_slowly,
};

#define N_OF_STRATEGIST (sizeof(of_strategist) / sizeof(of_strategist[0]))
#define N_OF_OTHERS (sizeof(of_others) / sizeof(of_others[0]))

void strategy_step(struct rng *r, struct scenario *s)
{
	struct scenario_vf *vf = &s->vfs[0];
	uint64_t n = random_between(r, 1, 3);

	while (n-- > 0) {
		/* VF 1 always has work. */
		if (s->n_vfs > 2 && random_one_in(r, 4))
			of_others[random_draw(r) % N_OF_OTHERS](
				r, &s->vfs[random_between(r, 2, s->n_vfs - 1)]);
		else
			of_strategist[random_draw(r) % N_OF_STRATEGIST](r, vf);
	}
}

/* Chooses among the rules of the policy that an operator can choose. Numbers stay as they are: some
 * determine over how long a time a VF may pay for what it has had. */
static void choose(struct rng *r, const struct vgpu_policy_ops *policy, struct settings *out)
{
	const struct vgpu_param *p;

	out->n = 0;
	for (p = policy->params; p->name; p++)
		if (p->type == VGPU_PARAM_CHOICE && random_one_in(r, 2))
			settings_set(out, p->name,
				     p->choices[random_draw(r) % (uint64_t)(p->max + 1)]);
}

void strategy_begin(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	const vgpu_nsec save = 150 * VGPU_USEC;
	uint32_t i;

	choose(r, policy, &s->params);
	s->timer_late = (struct vhost_range){0, 80 * VGPU_USEC};
	s->until = s->work_from + 6 * VGPU_SEC;
	for (i = 0; i < s->n_vfs; i++) {
		s->vfs[i] = (struct scenario_vf){.save = {save, save}};
		behave(&s->vfs[i], jitter[HONEST - 1]);
	}
	s->vfs[0].strategist = true;
	for (i = 2; i < s->n_vfs; i++)
		of_others[random_draw(r) % N_OF_OTHERS](r, &s->vfs[i]);
	stops_late(r, &s->vfs[0]);
}
