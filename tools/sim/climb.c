/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "climb.h"

/* Below the grace time of 50 ms: a VF that stops later hangs. */
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

static void change_tenant(struct rng *r, const struct vgpu_policy_ops *policy,
			  struct scenario_vf *vf)
{
	(void)policy;
	random_tenant(r, vf);
}

static void range_below(struct rng *r, vgpu_nsec least, vgpu_nsec most, struct vhost_range *out)
{
	vgpu_nsec a = random_magnitude(r, least, most), b = random_magnitude(r, least, most);

	*out = (struct vhost_range){a < b ? a : b, a < b ? b : a};
	if (random_one_in(r, 3))
		out->min = out->max;
}

static void change_burst(struct rng *r, const struct vgpu_policy_ops *policy,
			 struct scenario_vf *vf)
{
	(void)policy;
	range_below(r, VGPU_USEC, 200 * VGPU_MSEC, &vf->burst);
}

static void change_think(struct rng *r, const struct vgpu_policy_ops *policy,
			 struct scenario_vf *vf)
{
	(void)policy;
	range_below(r, VGPU_USEC, 200 * VGPU_MSEC, &vf->think);
}

static void change_late(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario_vf *vf)
{
	(void)policy;
	range_below(r, VGPU_USEC, LATEST, &vf->late);
}

static void change_rare(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario_vf *vf)
{
	(void)policy;
	range_below(r, VGPU_USEC, LATEST, &vf->rare);
	vf->rare_ppm = (uint32_t)random_between(r, 0, 8) * 100000;
}

/* Windows, which the VF pays for in instalments of later turns; beside budgets they prove nothing.
 */
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

static void (*const of_vf[])(struct rng *r, const struct vgpu_policy_ops *policy,
			     struct scenario_vf *vf) = {
	change_weight, change_weight, change_settings, change_tenant, change_burst,   change_burst,
	change_think,  change_late,   change_rare,     change_rare,   change_windows,
};

static void change_params(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	s->params.n = 0;
	if (!random_one_in(r, 3))
		random_settings(r, policy->params, &s->params);
}

static void change_switch(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	uint32_t i;

	(void)policy;
	range_below(r, VGPU_USEC, VGPU_MSEC, &s->load);
	range_below(r, VGPU_USEC, 200 * VGPU_USEC, &s->run);
	for (i = 0; i < s->n_vfs; i++)
		range_below(r, VGPU_USEC, 500 * VGPU_USEC, &s->vfs[i].save);
}

/* An odd seed: the relations of prove_scenario() would take eight more runs. */
static void change_seed(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	(void)policy;
	s->seed = random_draw(r) >> 1 | 1;
}

/* The daemon sets the shortest slice apart from the shortest run. */
static void change_slices(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	(void)policy;
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

void climb_begin(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s)
{
	uint32_t i;
	size_t k;

	scenario_init(s, (uint32_t)random_between(r, 2, 4));
	snprintf(s->policy, sizeof(s->policy), "%s", policy->name);
	s->work_from = 100 * VGPU_MSEC;
	s->until = s->work_from + random_between(r, 1, 3) * VGPU_SEC;
	s->window = (struct vhost_range){VGPU_MSEC, VGPU_MSEC};
	for (k = 0; k < N_OF_ALL; k++)
		of_all[k](r, policy, s);
	for (i = 0; i < s->n_vfs; i++) {
		for (k = 0; k < N_OF_VF; k++)
			if (random_one_in(r, 2))
				of_vf[k](r, policy, &s->vfs[i]);
	}
}
