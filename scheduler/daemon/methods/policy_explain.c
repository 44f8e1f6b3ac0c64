/* SPDX-License-Identifier: MIT */
/*
 * What a policy promises to each VF of a GPU. The policy in force answers itself: its bounds
 * include its measurements. Another policy, or other parameters, are tried on a separate core, with
 * the values that 'policy set' would give it, and the measured world switch. The trial's promises
 * replace the core's in the snapshot, so that both are answered alike.
 */
#include "policy_explain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/change.h"
#include "control/client.h"
#include "engine/engine.h"
#include "vms/lease.h"
#include "plugin.h"
#include "vms/policy_change.h"
#include "promised.h"
#include "config/trial.h"

static int try(struct call *call, struct vgpu_error *err)
{
	static struct trial_promise
		promises[VGPU_GPU_MAX_VFS]; /* used by the control thread only */
	static struct policy_values values;
	struct engine_snapshot *s = &call->snapshot;
	const struct engine_policy *now = engine_policy(call->gpu->engine);
	uint32_t i;
	int r = policy_change_make(call, &now->to_come, err);

	if (r < 0)
		return r;
	values.policy = call->request.event.policy;
	memcpy(values.params, call->params, sizeof(values.params));
	memcpy(values.vf_params,
	       values.policy == now->to_come.policy ? now->to_come.vf_params : call->vf_params,
	       sizeof(values.vf_params));
	r = trial_promises(call->gpu->config, engine_caps(call->gpu->engine), &values,
			   s->core.facts.switch_high_ns, promises, err);
	for (i = 0; i < s->n_vfs && r == 0; i++) {
		s->vfs[i].share_numerator = promises[i].numerator;
		s->vfs[i].share_denominator = promises[i].denominator;
		s->vfs[i].bound = promises[i].bound;
		s->governed_vfs[i].bound.least_ppm = promises[i].least_ppm;
		s->governed_vfs[i].bound.leak_ppm = promises[i].leak_ppm;
		memcpy(s->vfs[i].params, values.vf_params[i], sizeof(s->vfs[i].params));
	}
	s->core.policy = values.policy;
	memcpy(s->core.params, values.params, sizeof(s->core.params));
	return r;
}

/* Returns whether the client asks about the present policy. */
static bool is_in_force(const struct call *call)
{
	return (!call->policy || call->policy == call->snapshot.core.policy) &&
	       !json_object_object_get_ex(call->args, "params", NULL);
}

static void on_looked(struct call *call)
{
	struct engine_request *request = &call->request;
	struct vgpu_error err = {""};
	int r = request->result;

	call->would_be = r >= 0 && !is_in_force(call);
	if (call->would_be)
		r = try(call, &err);
	if (call->would_be && r < 0)
		snprintf(request->why, sizeof(request->why), "%.200s", err.text);
	request->result = r;
	call->then = NULL;
	call_over(call);
}

/* Loading a policy runs code from a file: a reader must not cause that. */
int policy_explain_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	const char *name = call_text(call, "policy");
	bool may_load = call->client && call->client->may_change;

	call->policy = NULL;
	if (name)
		call->policy =
			plugin_policy(may_load ? control->config->policy_dir : "", name, err);
	if (name && !call->policy && !may_load)
		return vgpu_error_set(err, -EINVAL,
				      "policy %.40s: it is neither built in nor loaded; 'vgpuctl "
				      "policy list' shows those that are",
				      name);
	if (name && !call->policy)
		return vgpu_error_prefix(err, -EINVAL, "policy %.40s", name);
	call->then = on_looked;
	return call_look_begin(control, call, err);
}

static json *one_vf(const struct call *call, uint32_t i)
{
	const struct engine_snapshot *s = &call->snapshot;
	const struct vgpu_vf_view *vf = &s->vfs[i];
	const struct lease *lease = &call->gpu->leases[i];
	json *o = json_object_new_object();

	put_int(o, "vf", i);
	if (lease->state != LEASE_NONE)
		put_text(o, "domain", lease->domain);
	put_promised(o, s->core.policy, vf);
	put_int(o, "max_overrun_ns", vf->ledger.max_overrun_ns);
	if (s->governed) {
		put_int(o, "least_ppm", s->governed_vfs[i].bound.least_ppm);
		put_int(o, "leak_ppm", s->governed_vfs[i].bound.leak_ppm);
	}
	json_object_object_add(o, "params", params_json(s->core.policy->vf_params, vf->params));
	return o;
}

json *policy_explain_finish(struct call *call)
{
	const struct engine_snapshot *s = &call->snapshot;
	json *o = json_object_new_object(), *list = json_object_new_array();
	uint32_t i;

	for (i = 0; i < s->n_vfs; i++)
		json_object_array_add(list, one_vf(call, i));
	put_text(o, "gpu", call->gpu->config->name);
	put_text(o, "policy", s->core.policy->name);
	put_promises(o, s->core.policy);
	put_bool(o, "in_force", !call->would_be);
	put_text(o, "preemption", s->caps.preemption);
	put_int(o, "switch_high_ns", s->core.facts.switch_high_ns);
	json_object_object_add(o, "params", params_json(s->core.policy->params, s->core.params));
	json_object_object_add(o, "vfs", list);
	return o;
}
