/* SPDX-License-Identifier: MIT */
/* The methods policy.*. */
#include <errno.h>
#include <string.h>

#include "builtin.h"
#include "change.h"
#include "policy_methods.h"
#include "lease.h"
#include "plugin.h"

static json *param_table(const struct vgpu_param *table)
{
	json *list = json_object_new_array(), *o, *choices;
	char text[32];
	int i, c;

	for (i = 0; table[i].name; i++) {
		o = json_object_new_object();
		put_text(o, "name", table[i].name);
		put_text(o, "unit", table[i].unit);
		put_text(o, "help", table[i].help);
		vgpu_param_text(&table[i], table[i].def, text, sizeof(text));
		put_text(o, "default", text);
		if (table[i].type == VGPU_PARAM_CHOICE) {
			choices = json_object_new_array();
			for (c = 0; table[i].choices[c]; c++)
				json_object_array_add(choices,
						      json_object_new_string(table[i].choices[c]));
			json_object_object_add(o, "choices", choices);
		} else {
			put_int(o, "min", (uint64_t)table[i].min);
			put_int(o, "max", (uint64_t)table[i].max);
		}
		json_object_array_add(list, o);
	}
	return list;
}

static json *policy_json(const struct vgpu_policy_ops *p)
{
	static const char *const promises[] = {"work-conserving", "proportional", "no-starvation",
					       "guarantee"};
	json *o = json_object_new_object(), *list = json_object_new_array();
	unsigned i;

	put_text(o, "policy", p->name);
	put_text(o, "help", p->help);
	for (i = 0; i < 4; i++)
		if (p->promises >> i & 1)
			json_object_array_add(list, json_object_new_string(promises[i]));
	json_object_object_add(o, "promises", list);
	json_object_object_add(o, "params", param_table(p->params));
	json_object_object_add(o, "vf_params", param_table(p->vf_params));
	return o;
}

int begin_policy_list(struct control *control, struct call *call, struct vgpu_error *err)
{
	json *o = json_object_new_object(), *list = json_object_new_array();
	unsigned i;

	(void)control;
	(void)err;
	for (i = 0; vgpu_builtin_policies[i]; i++)
		json_object_array_add(list, policy_json(vgpu_builtin_policies[i]));
	for (i = 0; plugin_loaded(i); i++)
		json_object_array_add(list, policy_json(plugin_loaded(i)));
	json_object_object_add(o, "policies", list);
	call_answer(call, o);
	return 0;
}

json *finish_policy_show(struct call *call)
{
	const struct engine_snapshot *s = &call->snapshot;
	json *o = policy_json(s->core.policy);

	put_text(o, "gpu", call->gpu->config->name);
	json_object_object_add(o, "values", params_json(s->core.policy->params, s->core.params));
	if (s->core.next_policy)
		put_text(o, "next_policy", s->core.next_policy->name);
	if (s->warning[0])
		put_text(o, "warning", s->warning);
	return o;
}

/* Carries over what a VM's VF had under earlier policies: the last one may only have replaced an
 * evicted one. */
static void carry_over_lease(struct call *call, uint32_t vf, const struct vgpu_policy_ops *policy)
{
	if (call->gpu->leases[vf].state == LEASE_NONE)
		return;
	json_object_object_foreach(lease_params(call->gpu, vf), name, value)
		vgpu_param_set(policy->vf_params, name, json_object_get_string(value),
			       call->vf_params[vf], NULL);
}

/* VF parameters that the new policy has by the same name keep their values. */
static void carry_over(struct call *call, const struct policy_values *now,
		       const struct vgpu_policy_ops *policy)
{
	const struct vgpu_param *from = now->policy->vf_params, *to = policy->vf_params;
	int i, j;
	uint32_t vf;

	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
		vgpu_param_defaults(to, call->vf_params[vf]);
		carry_over_lease(call, vf, policy);
		for (i = 0; to[i].name; i++)
			for (j = 0; from[j].name; j++)
				if (strcmp(to[i].name, from[j].name) == 0)
					call->vf_params[vf][i] = now->vf_params[vf][j];
	}
}

static int make_policy_set(struct call *call, const struct policy_values *now,
			   struct vgpu_error *err)
{
	const struct vgpu_policy_ops *policy = call->policy ? call->policy : now->policy;
	bool same = policy == now->policy;
	int r;

	if (same) {
		memcpy(call->params, now->params, sizeof(call->params));
	} else {
		vgpu_param_defaults(policy->params, call->params);
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

int begin_policy_set(struct control *control, struct call *call, struct vgpu_error *err)
{
	const char *name = call_text(call, "policy");
	int r = call_find_gpu(control, call, err);

	if (r < 0)
		return r;
	call->policy = name ? plugin_policy(control->config->policy_dir, name, err) : NULL;
	if (name && !call->policy)
		return vgpu_error_prefix(err, -EINVAL, "policy %.40s", name);
	return change_request(call, make_policy_set, err);
}

json *finish_policy_set(struct call *call)
{
	const struct vgpu_policy_ops *policy = call->request.event.policy;
	json *o = json_object_new_object();

	put_text(o, "policy", policy->name);
	json_object_object_add(o, "params", params_json(policy->params, call->params));
	return o;
}
