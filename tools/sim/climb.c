/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "climb.h"

/* The latest stop: below the grace of 50 ms, after which a VF hangs. */
#define LATEST (45 * VGPU_MSEC)

/* What is changed in a step, of a VF and of the whole. */

static void change_weight(struct rng *r, const struct vgpu_policy_ops *policy,
			  struct scenario_vf *vf)
{
	uint32_t i;

	for (i = 0; policy->vf_params[i].name; i++)
		if (strcmp(policy->vf_params[i].name, "weight") == 0)
			random_set_number(&vf->params, "weight",
					  (int64_t)random_magnitude(r, 1, 10000));
}

static void change_settings(struct rng *r, const struct vgpu_policy_ops *policy,
			    struct scenario_vf *vf)
{
	random_settings(r, policy->vf_params, &vf->params);
}

static void change_tenant(struct rng *r, const struct vgpu_policy_ops *, struct scenario_vf *vf)
{
	random_tenant(r, vf);
}

/* Draws a time of any magnitude; every second one is long, because bounds consist of long times. */
static vgpu_nsec time_below(struct rng *r, vgpu_nsec least, vgpu_nsec most)
{
	return random_one_in(r, 2) ? random_between(r, least, most)
				   : random_magnitude(r, least, most);
}

static void range_below(struct rng *r, vgpu_nsec least, vgpu_nsec most, struct vhost_range *out)
{
	vgpu_nsec a = time_below(r, least, most), b = time_below(r, least, most);

	*out = (struct vhost_range){a < b ? a : b, a < b ? b : a};
	if (random_one_in(r, 3))
		out->min = out->max;
}

static void change_burst(struct rng *r, const struct vgpu_policy_ops *, struct scenario_vf *vf)
{
	range_below(r, VGPU_USEC, 200 * VGPU_MSEC, &vf->burst);
}

static void change_think(struct rng *r, const struct vgpu_policy_ops *, struct scenario_vf *vf)
{
	range_below(r, VGPU_USEC, 200 * VGPU_MSEC, &vf->think);
}

static void change_late(struct rng *r, const struct vgpu_policy_ops *, struct scenario_vf *vf)
{
	range_below(r, VGPU_USEC, LATEST, &vf->late);
}

static void change_rare(struct rng *r, const struct vgpu_policy_ops *, struct scenario_vf *vf)
{
	range_below(r, VGPU_USEC, LATEST, &vf->rare);
	vf->rare_ppm = (uint32_t)random_between(r, 0, 8) * 100000;
}

/* Changes windows, which the VF pays for in instalments of later turns. Not beside budgets, with
 * which windows prove nothing. */
static void change_windows(struct rng *r, const struct vgpu_policy_ops *policy,
			   struct scenario_vf *vf)
{
	if (policy->promises & VGPU_PROMISE_GUARANTEE || random_one_in(r, 2)) {
		vf->window_ppm = 0;
		return;
	}
	range_below(r, VGPU_MSEC, 500 * VGPU_MSEC, &vf->window);
	vf->window_ppm = (uint32_t)random_magnitude(r, 1000, 1000000);
}

/* Changes one time, by a fifth less to a quarter more. */
static void change_a_little(struct rng *r, const struct vgpu_policy_ops *, struct scenario_vf *vf)
{
	struct vhost_range *const times[] = {&vf->burst, &vf->think, &vf->period, &vf->late,
					     &vf->rare};
	struct vhost_range *t = times[random_draw(r) % (sizeof(times) / sizeof(times[0]))];
	uint64_t percent = random_between(r, 80, 125);

	if (t->max < VGPU_USEC)
		return;
	t->min = t->min * percent / 100;
	t->max = t->max * percent / 100;
	if (t != &vf->late && t != &vf->rare)
		return;
	t->min = t->min < LATEST ? t->min : LATEST;
	t->max = t->max < LATEST ? t->max : LATEST;
}

static void (*const of_vf[])(struct rng *r, const struct vgpu_policy_ops *policy,
			     struct scenario_vf *vf) = {
	change_weight,	 change_settings, change_tenant,  change_burst,
	change_think,	 change_late,	  change_rare,	  change_a_little,
	change_a_little, change_a_little, change_windows,
};

static void change_params(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	uint32_t n = 0;

	while (policy->params[n].name)
		n++;
	if (n == 0 || random_one_in(r, 4))
		s->params.n = 0;
	else
		random_setting(r, &policy->params[random_draw(r) % n], &s->params);
}

static void change_switch(struct rng *r, const struct vgpu_policy_ops *, struct scenario *s)
{
	uint32_t i;

	range_below(r, VGPU_USEC, VGPU_MSEC, &s->load);
	range_below(r, VGPU_USEC, 200 * VGPU_USEC, &s->run);
	for (i = 0; i < s->n_vfs; i++)
		range_below(r, VGPU_USEC, 500 * VGPU_USEC, &s->vfs[i].save);
}

/* Changes the seed, to an odd one: with others prove_scenario() tests relations, which takes eight
 * more runs. */
static void change_seed(struct rng *r, const struct vgpu_policy_ops *, struct scenario *s)
{
	s->seed = random_draw(r) >> 1 | 1;
}

/* Changes the shortest slice and the shortest run, which the daemon sets separately. */
static void change_slices(struct rng *r, const struct vgpu_policy_ops *, struct scenario *s)
{
	s->min_slice = random_one_in(r, 2) ? 500 * VGPU_USEC
					   : random_magnitude(r, 100 * VGPU_USEC, 8 * VGPU_MSEC);
	s->min_run = random_one_in(r, 2) ? 0 : 500 * VGPU_USEC;
}

static void (*const of_all[])(struct rng *r, const struct vgpu_policy_ops *policy,
			      struct scenario *s) = {
	change_params,
	change_switch,
	change_seed,
	change_slices,
};

#define N_OF_VF (sizeof(of_vf) / sizeof(of_vf[0]))
#define N_OF_ALL (sizeof(of_all) / sizeof(of_all[0]))

void climb_step(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	uint64_t n = random_between(r, 1, 3);

	while (n-- > 0) {
		if (random_one_in(r, 4))
			of_all[random_draw(r) % N_OF_ALL](r, policy, s);
		else
			of_vf[random_draw(r) % N_OF_VF](r, policy,
							&s->vfs[random_draw(r) % s->n_vfs]);
	}
}

/* Makes VFs as different as possible, so that what one VF does has the largest effect on the
 * others. */

static void waits(struct rng *, const struct vgpu_policy_ops *, struct scenario_vf *vf)
{
	vf->work = VHOST_ALWAYS;
	vf->late = (struct vhost_range){0, 0};
	vf->rare_ppm = 0;
}

static void draw_all(struct rng *r, const struct vgpu_param *table, struct settings *out)
{
	uint32_t i;

	for (i = 0; table[i].name && i < SCENARIO_MAX_SETTINGS; i++)
		random_setting(r, &table[i], out);
}

/* Makes a VF come and go: within its own turns, if they are long; for an instant, before the turn
 * ends in which it ran out of work; or for longer than another takes to stop. */
static void comes_and_goes(struct rng *r, const struct vgpu_policy_ops *policy,
			   struct scenario_vf *vf)
{
	static const struct {
		vgpu_nsec burst, think_least, think_most;
	} kinds[] = {
		{VGPU_MSEC, 100 * VGPU_USEC, 4 * VGPU_MSEC},
		{10 * VGPU_MSEC, VGPU_USEC, 10 * VGPU_USEC},
		{100 * VGPU_MSEC, VGPU_MSEC, 100 * VGPU_MSEC},
	};
	uint64_t k = random_draw(r) % (sizeof(kinds) / sizeof(kinds[0]));

	draw_all(r, policy->vf_params, &vf->params);
	vf->work = VHOST_BURSTS;
	range_below(r, VGPU_USEC, kinds[k].burst, &vf->burst);
	range_below(r, kinds[k].think_least, kinds[k].think_most, &vf->think);
}

static void is_late_at_times(struct rng *r, const struct vgpu_policy_ops *, struct scenario_vf *vf)
{
	vf->work = VHOST_ALWAYS;
	vf->late = (struct vhost_range){0, 0};
	vf->rare.max = random_between(r, 10 * VGPU_MSEC, LATEST);
	vf->rare.min = vf->rare.max / 2;
	vf->rare_ppm = (uint32_t)random_between(r, 2, 6) * 100000;
}

static void stops_slowly(struct rng *r, const struct vgpu_policy_ops *, struct scenario_vf *vf)
{
	vf->work = VHOST_ALWAYS;
	vf->late.max = random_between(r, 5 * VGPU_MSEC, LATEST);
	vf->late.min = random_one_in(r, 2) ? vf->late.max : vf->late.max / 2;
}

static void (*const unlike[])(struct rng *r, const struct vgpu_policy_ops *policy,
			      struct scenario_vf *vf) = {
	waits,
	comes_and_goes,
	is_late_at_times,
	stops_slowly,
};

static void make_unlike(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	uint64_t first = random_draw(r) % 4;
	uint32_t i;

	draw_all(r, policy->params, &s->params);
	for (i = 0; i < s->n_vfs; i++)
		unlike[(first + i) % 4](r, policy, &s->vfs[i]);
	s->until = s->work_from + random_between(r, 500, 2000) * VGPU_MSEC;
}

void climb_begin(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	uint32_t i;
	size_t k;

	scenario_init(s, (uint32_t)random_between(r, 2, 4));
	snprintf(s->policy, sizeof(s->policy), "%s", policy->name);
	s->work_from = 100 * VGPU_MSEC;
	/* A bound breaks within a few turns, and a climb has more steps if its scenarios are
	 * short. */
	s->until = s->work_from + random_magnitude(r, 100 * VGPU_MSEC, 2 * VGPU_SEC);
	s->window = (struct vhost_range){VGPU_MSEC, VGPU_MSEC};
	random_settings(r, policy->params, &s->params);
	for (k = 0; k < N_OF_ALL; k++)
		of_all[k](r, policy, s);
	for (i = 0; i < s->n_vfs; i++) {
		for (k = 0; k < N_OF_VF; k++)
			if (random_one_in(r, 2))
				of_vf[k](r, policy, &s->vfs[i]);
	}
	if (!random_one_in(r, 3))
		make_unlike(r, policy, s);
}
