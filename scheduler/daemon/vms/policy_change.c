/* SPDX-License-Identifier: MIT */
#include "policy_change.h"

#include <string.h>

#include "control/args.h"
#include "lease.h"

/* Sets those parameters of a VF, by name, that POLICY has. PARAMS may be NULL. */
static void take_known(const struct vgpu_policy_ops *policy, struct json_object *params,
		       int64_t *values)
{
	if (!params)
		return;
	json_object_object_foreach(params, name, value)
		vgpu_param_set(policy->vf_params, name, json_object_get_string(value), values,
			       NULL);
}

/* Carries over the parameters of a VM's VF under earlier policies: the last one may only have
 * replaced an evicted one. */
static void carry_over_lease(struct call *call, uint32_t vf, const struct vgpu_policy_ops *policy)
{
	if (call->gpu->leases[vf].state != LEASE_NONE)
		take_known(policy, lease_params(call->gpu, vf), call->vf_params[vf]);
}

/* VF parameters that the new policy also has keep their values. The others get the values that were
 * configured, set or claimed for that policy, or for one before it. */
static void carry_over(struct call *call, const struct policy_values *now,
		       const struct vgpu_policy_ops *policy)
{
	const struct vgpu_param *from = now->policy->vf_params, *to = policy->vf_params;
	int i, j;
	uint32_t vf;

	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
		config_vf_usual(call->gpu->config, vf, policy, call->vf_params[vf]);
		take_known(policy, call->gpu->live.set[vf], call->vf_params[vf]);
		carry_over_lease(call, vf, policy);
		for (i = 0; to[i].name; i++)
			for (j = 0; from[j].name; j++)
				if (strcmp(to[i].name, from[j].name) == 0)
					call->vf_params[vf][i] = now->vf_params[vf][j];
	}
}

int policy_change_make(struct call *call, const struct policy_values *now, struct vgpu_error *err)
{
	const struct vgpu_policy_ops *policy = call->policy ? call->policy : now->policy;
	bool same = policy == now->policy;
	int r;

	if (same) {
		memcpy(call->params, now->params, sizeof(call->params));
	} else {
		config_usual(call->gpu->config, policy, call->params);
		carry_over(call, now, policy);
	}
	r = call_params(call, policy->params, call->params, err);
	if (r < 0)
		return vgpu_error_prefix(err, r, "policy %s", policy->name);
	call->request.event =
		(struct vgpu_event){.type = same ? VGPU_EV_SET_POLICY : VGPU_EV_POLICY,
				    .policy = policy,
				    .params = call->params,
				    .vf_params = call->vf_params[0]};
	return 0;
}

int vf_change_make(struct call *call, const struct policy_values *now, struct vgpu_error *err)
{
	int r;

	memcpy(call->params, now->vf_params[call->vf], sizeof(call->params));
	r = call_params(call, now->policy->vf_params, call->params, err);
	change_set_vf(call, now);
	return r ? vgpu_error_prefix(err, r, "policy %s", now->policy->name) : 0;
}

int whole_change(struct call *call, const struct policy_values *want,
		 const struct policy_values *now)
{
	bool same = want->policy == now->policy;
	uint32_t vf;

	memcpy(call->params, want->params, sizeof(call->params));
	memcpy(call->vf_params, want->vf_params, sizeof(call->vf_params));
	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
		if (call->gpu->leases[vf].state == LEASE_NONE)
			continue;
		if (same)
			memcpy(call->vf_params[vf], now->vf_params[vf],
			       sizeof(call->vf_params[vf]));
		else
			carry_over_lease(call, vf, want->policy);
	}
	/* A change to the same policy checks all values together: one by one, the first could be
	 * refused for lack of time that the second frees. */
	call->request.event = (struct vgpu_event){.type = VGPU_EV_POLICY,
						  .policy = want->policy,
						  .params = call->params,
						  .vf_params = call->vf_params[0]};
	return same && memcmp(call->params, now->params, sizeof(call->params)) == 0 &&
	       memcmp(call->vf_params, now->vf_params,
		      (size_t)call->gpu->config->vfs * sizeof(call->vf_params[0])) == 0;
}
