/* SPDX-License-Identifier: MIT */
/*
 * Each policy states a share for each VF: the core divides exclusive windows by it. The policy's
 * promises determine whether the VF is promised that part of the engine, something else, or
 * nothing.
 */
#include "promised.h"

#include <string.h>

#include "control/put.h"

static bool has_param(const struct vgpu_param *table, const char *name)
{
	while (table->name && strcmp(table->name, name) != 0)
		table++;
	return table->name != NULL;
}

/* The base of a VF's share: the engine, while all VFs have work; each of its periods, for a budget;
 * its class's time. NULL: no share is promised. */
static const char *share_of(const struct vgpu_policy_ops *policy, const struct vgpu_vf_view *vf)
{
	if (vf->share_numerator == 0)
		return NULL;
	if (policy->promises & VGPU_PROMISE_PROPORTIONAL)
		return "engine";
	if (policy->promises & VGPU_PROMISE_GUARANTEE)
		return vf->bound.period ? "period" : NULL;
	return has_param(policy->vf_params, "class") ? "class" : NULL;
}

uint64_t promised_ppm(const struct vgpu_policy_ops *policy, const struct vgpu_vf_view *vf)
{
	const char *of = policy ? share_of(policy, vf) : NULL;

	if (!of || strcmp(of, "class") == 0 || vf->share_denominator == 0)
		return 0;
	return (uint64_t)((unsigned __int128)vf->share_numerator * 1000000 / vf->share_denominator);
}

void put_promised(json *o, const struct vgpu_policy_ops *policy, const struct vgpu_vf_view *vf)
{
	const char *of = share_of(policy, vf);

	put_int(o, "share_numerator", vf->share_numerator);
	put_int(o, "share_denominator", vf->share_denominator);
	json_object_object_add(o, "share_of", of ? json_object_new_string(of) : NULL);
	put_bound(o, "lag_bound_ns", vf->bound.max_lag);
	put_bound(o, "wait_bound_ns", vf->bound.max_wait);
	put_int(o, "budget_ns", vf->bound.budget);
	put_int(o, "period_ns", vf->bound.period);
	put_int(o, "limit_ppm", vf->bound.limit_ppm);
	put_int(o, "limit_burst_ns", vf->bound.burst);
}

void put_promises(json *o, const struct vgpu_policy_ops *policy)
{
	static const char *const names[] = {"work-conserving", "proportional", "no-starvation",
					    "guarantee"};
	json *list = json_object_new_array();
	unsigned i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (policy->promises >> i & 1)
			json_object_array_add(list, json_object_new_string(names[i]));
	json_object_object_add(o, "promises", list);
}
