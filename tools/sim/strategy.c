/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "peer.h"
#include "strategy.h"

/* What a strategy may gain, or cost another VF, as a part of what the VF has without it. */
#define ALLOWED 0.02

/* By so much of what they have, VFs with frames have more or less: their ticks meet the turns of
 * the others. */
#define VARIES 0.05

/* Where a strategy seems to pay, honest runs with so many other seeds show by how much more. */
#define OTHER_SEEDS 8

/* Below the grace time of 50 ms: a VF that stops later hangs. */
#define LATEST (45 * VGPU_MSEC)

/* In less time one turn more or less is too large a part. */
#define LEAST (5 * VGPU_SEC)

/* How an honest VF stops, in turn. */
static const vgpu_nsec jitter[] = {0, 50 * VGPU_USEC, 100 * VGPU_USEC};

#define HONEST (sizeof(jitter) / sizeof(jitter[0]))

/* The results of a run. */
struct outcome {
	double *service; /* of each VF */
	double all;	 /* the sum over all VFs */
	double sleepers; /* over those that do not always work, and the switches of their turns */
	double varies;	 /* of an honest run: by how much less they may have without a strategy */
	double unpaid;	 /* what the VF that has a strategy had, and may still have to pay */
};

/* The longest world switch that one turn of VF I needs. */
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
	uint32_t i;

	if (running_start(&r, s, 0, policy, false, VHOST_MEMORY_NONE, peer_or_policy, &err) < 0)
		abort(); /* this scenario has run before */
	running_run(&r, s->until);
	o->service = calloc(s->n_vfs, sizeof(*o->service));
	o->all = o->sleepers = 0;
	for (i = 0; i < s->n_vfs; i++) {
		o->service[i] = (double)vhost_service(&r.host, i);
		o->all += o->service[i];
		if (i == strategist || s->vfs[i].work == VHOST_ALWAYS)
			continue;
		vgpu_core_vf_view(r.host.core, i, &v);
		o->sleepers += o->service[i] + 2 * (double)v.ledger.dispatches * switch_of(s, i);
	}
	vgpu_core_vf_view(r.host.core, strategist, &v);
	o->unpaid = (double)v.ledger.max_overrun_ns + (v.lag_ns < 0 ? -(double)v.lag_ns : 0);
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

/* What MORE is of what is allowed to a VF that had BEFORE. */
static double part(double before, double more)
{
	return before > 0 ? more / before / ALLOWED : 0;
}

/* What the VF that has a strategy gains: of what is served, so that it does not count if switches
 * become fewer. */
static double gain(const struct outcome *before, const struct outcome *after, uint32_t i)
{
	double had = after->service[i] * before->all / after->all;

	return part(before->service[i], had - before->service[i] - after->unpaid - before->varies);
}

/* What VF I loses, if not to VFs that sleep now and then and come at better times for them. */
static double loss(const struct outcome *before, const struct outcome *after, uint32_t i)
{
	double to_others = fmax(after->sleepers - before->sleepers, 0) + before->varies;

	return part(before->service[i],
		    before->service[i] - after->service[i] - to_others - after->unpaid);
}

/* Whether the policy charges, and serves whoever has work. Under `strict` a slot that has passed is
 * not made up for, whoever made it pass. */
static bool is_judged(const struct vgpu_policy_ops *policy)
{
	const uint64_t serves = VGPU_PROMISE_WORK_CONSERVING | VGPU_PROMISE_GUARANTEE;

	return policy->promises & serves &&
	       policy->promises & ~(uint64_t)VGPU_PROMISE_WORK_CONSERVING;
}

/* The VF that has a strategy, or n_vfs. */
static uint32_t strategist_of(const struct scenario *s)
{
	uint32_t i = 0;

	while (i < s->n_vfs && !s->vfs[i].strategist)
		i++;
	return i;
}

/* What of its strategy, or of that of another VF, VF I gains or loses at least, whichever honest
 * run is compared. */
static double pays(const struct scenario *s, const struct outcome *before,
		   const struct outcome *after, uint32_t strategist, uint32_t i)
{
	double least = INFINITY;
	size_t k;

	if (i != strategist && s->vfs[i].work != VHOST_ALWAYS)
		return 0;
	for (k = 0; k < HONEST; k++)
		least = fmin(least, i == strategist ? gain(&before[k], after, i)
						    : loss(&before[k], after, i));
	return least;
}

/* The largest part of what is allowed that a VF gains or loses; in WHY, if it is more than that. */
static double most_paid(const struct scenario *s, const struct outcome *before,
			const struct outcome *after, uint32_t strategist, char *why, size_t size)
{
	double worst = 0, part;
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++) {
		part = pays(s, before, after, strategist, i);
		if (part > worst && part > 1)
			snprintf(why, size,
				 "VF %u has %.3f instead of %.3f ms by the behaviour of VF %u", i,
				 after->service[i] / 1e6, before[0].service[i] / 1e6, strategist);
		worst = part > worst ? part : worst;
	}
	return worst;
}

/* Among VFs that always work, ticks may meet their turns well or badly, as a seed has it. */
static void vary(struct scenario *honest, const struct vgpu_policy_ops *policy, uint32_t strategist,
		 struct outcome *before, uint64_t *decisions)
{
	uint64_t seed = honest->seed;
	double least = INFINITY;
	struct outcome other;
	size_t k;

	for (honest->seed = seed + 1; honest->seed <= seed + OTHER_SEEDS; honest->seed++) {
		for (k = 0; k < HONEST; k++) {
			behave(&honest->vfs[strategist], jitter[k]);
			run(honest, policy, strategist, &other, decisions);
			least = fmin(least, other.sleepers);
			free(other.service);
		}
	}
	for (k = 0; k < HONEST; k++)
		before[k].varies = fmax(before[k].varies, before[k].sleepers - least);
}

double strategy_pays(const struct scenario *s, const struct vgpu_policy_ops *policy,
		     uint64_t *decisions, char *why, size_t size)
{
	uint32_t strategist = strategist_of(s), i;
	struct outcome before[HONEST], after;
	struct scenario honest;
	bool beside = false;
	double worst;
	size_t k;

	for (i = 0; i < s->n_vfs; i++)
		beside |= i != strategist && s->vfs[i].work == VHOST_ALWAYS;
	if (!is_judged(policy) || strategist == s->n_vfs || !beside ||
	    s->until < s->work_from + LEAST)
		return 0;
	scenario_copy(&honest, s);
	for (k = 0; k < HONEST; k++) {
		behave(&honest.vfs[strategist], jitter[k]);
		run(&honest, policy, strategist, &before[k], decisions);
		before[k].varies = VARIES * before[k].sleepers;
	}
	run(s, policy, strategist, &after, decisions);
	worst = most_paid(s, before, &after, strategist, why, size);
	if (worst > 1) {
		why[0] = '\0';
		vary(&honest, policy, strategist, before, decisions);
		worst = most_paid(s, before, &after, strategist, why, size);
	}
	for (k = 0; k < HONEST; k++)
		free(before[k].service);
	free(after.service);
	scenario_free(&honest);
	return worst;
}

/* What is changed in a step: of the VF that has a strategy, */

static void stops_late(struct rng *r, struct scenario_vf *vf)
{
	vf->rare.max = random_magnitude(r, 100 * VGPU_USEC, LATEST);
	vf->rare.min = random_one_in(r, 2) ? vf->rare.max : vf->rare.max / 2;
	vf->rare_ppm = (uint32_t)random_between(r, 0, 10) * 100000;
}

static void stops_late_by_habit(struct rng *r, struct scenario_vf *vf)
{
	vf->late.max = random_magnitude(r, VGPU_USEC, LATEST);
	vf->late.min = random_one_in(r, 2) ? vf->late.max : vf->late.max / 2;
}

static void works_always(struct rng *r, struct scenario_vf *vf)
{
	(void)r;
	vf->work = VHOST_ALWAYS;
}

static void hides(struct rng *r, struct scenario_vf *vf)
{
	(void)r;
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

/* As a game does, with more or less work in each tick than there is time for. */
static void keeps_time(struct rng *r, struct scenario_vf *vf)
{
	vf->work = VHOST_PERIODIC;
	vf->period.max = random_magnitude(r, 4 * VGPU_MSEC, 60 * VGPU_MSEC);
	vf->period.min = vf->period.max;
	vf->burst.max = random_magnitude(r, VGPU_MSEC, 100 * VGPU_MSEC);
	vf->burst.min = vf->burst.max;
}

/* and of another VF. */

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

static void (*const of_others[])(struct rng *r, struct scenario_vf *vf) = {works_always, is_a_game,
									   is_a_game, pauses};

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

/* A rule of the policy, where an operator has the choice. Numbers stay as they are: some say over
 * how long a time a VF may pay for what it has had. */
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
	s->until = s->work_from + 10 * VGPU_SEC;
	for (i = 0; i < s->n_vfs; i++) {
		s->vfs[i] = (struct scenario_vf){.save = {save, save}};
		behave(&s->vfs[i], jitter[HONEST - 1]);
	}
	s->vfs[0].strategist = true;
	for (i = 2; i < s->n_vfs; i++)
		of_others[random_draw(r) % N_OF_OTHERS](r, &s->vfs[i]);
	stops_late(r, &s->vfs[0]);
}
