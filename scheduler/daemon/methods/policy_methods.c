/* SPDX-License-Identifier: MIT */
/* The methods policy.*, and vf.set. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "builtin.h"
#include "vms/claimed.h"
#include "control/client.h"
#include "vms/live.h"
#include "plugin.h"
#include "vms/policy_change.h"
#include "policy_methods.h"
#include "promised.h"
#include "saved.h"

#define LONGEST_REASON 100u

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
	json *o = json_object_new_object();

	put_text(o, "policy", p->name);
	put_text(o, "help", p->help);
	put_promises(o, p);
	json_object_object_add(o, "params", param_table(p->params));
	json_object_object_add(o, "vf_params", param_table(p->vf_params));
	return o;
}

int begin_policy_list(struct control *, struct call *call, struct vgpu_error *)
{
	json *o = json_object_new_object(), *list = json_object_new_array();
	unsigned i;

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

/* Records when, by whom and for what reason a change is saved. */
static int note_why(const struct call *call, struct saving *saving, struct vgpu_error *err)
{
	const char *reason = call_text(call, "reason");
	struct tm tm;
	time_t now = time(NULL);
	char when[32];
	size_t i;

	if (reason && strlen(reason) > LONGEST_REASON)
		return vgpu_error_set(err, -EINVAL, "reason: longer than %u characters",
				      LONGEST_REASON);
	for (i = 0; reason && reason[i]; i++)
		if (iscntrl((unsigned char)reason[i]))
			return vgpu_error_set(err, -EINVAL, "reason: want one line of text");
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &tm));
	snprintf(saving->why, sizeof(saving->why), "%s, by uid %u%s%s", when,
		 call->client ? (unsigned)call->client->uid : 0, reason ? ": " : "",
		 reason ? reason : "");
	return 0;
}

/* Adds the call's parameters, as texts of their own. */
static int add_params(const struct call *call, const struct vgpu_param *table,
		      struct saving *saving, struct vgpu_error *err)
{
	int64_t values[VGPU_MAX_PARAMS] = {0};
	char text[64];
	json *given;
	int i, r = call_params(call, table, values, err);

	if (r < 0)
		return vgpu_error_prefix(err, r, "policy %s", saving->policy->name);
	json_object_object_get_ex(call->args, "params", &given);
	for (i = 0; table[i].name; i++) {
		if (!json_object_object_get_ex(given, table[i].name, NULL))
			continue;
		vgpu_param_text(&table[i], values[i], text, sizeof(text));
		saving_add(saving, table[i].name, text);
	}
	return 0;
}

/* Prepares the saving of a change, and checks that it can be saved. VF: -1 for the policy. */
static int prepare_save(struct call *call, int32_t vf, struct vgpu_error *err)
{
	const struct vgpu_policy_ops *policy =
		call->policy ? call->policy : change_policy_of(call->gpu)->policy;
	struct gpu_config *gpu = call->gpu->config;
	struct saving *saving;
	int r;

	if (!call_int(call, "save", 0))
		return call_text(call, "reason")
			       ? vgpu_error_set(err, -EINVAL, "reason: only with save")
			       : 0;
	call->free_job = free;
	saving = call->job = calloc(1, sizeof(*saving));
	if (!saving)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	saving->gpu = gpu;
	saving->policy = policy;
	if (vf < 0)
		snprintf(saving->section, sizeof(saving->section), "gpu %s", gpu->name);
	else
		snprintf(saving->section, sizeof(saving->section), "vf %s/%d", gpu->name, vf);
	if (call->policy)
		saving_add(saving, "policy", policy->name);
	r = note_why(call, saving, err);
	if (r == 0)
		r = add_params(call, vf < 0 ? policy->params : policy->vf_params, saving, err);
	if (r < 0)
		return r;
	r = saved_check(call->control, saving, err);
	return r < 0 ? vgpu_error_prefix(err, r, "nothing was changed, as this cannot be saved")
		     : 0;
}

/* The change was made, or refused: saves it, or records that it is not saved. */
static void on_set(struct call *call)
{
	struct engine_request *request = &call->request;
	bool of_vf = request->event.type == VGPU_EV_SET_VF;
	struct vgpu_error err = {""};
	int r = 0;

	if (request->result >= 0 && call->job)
		r = saved_write(call->control, call->job, &err);
	if (request->result >= 0 && of_vf)
		live_changed_vf(call->gpu, call->vf);
	else if (request->result >= 0)
		live_changed_policy(call->gpu);
	if (r < 0) {
		request->result = r;
		snprintf(request->why, sizeof(request->why),
			 "changed until vgpud is restarted, but not saved: %.200s", err.text);
	}
	call->then = NULL;
	call_over(call);
}

/* VMs keep their claimed parameters, unless the operator forces the change. */
static int make_policy_set(struct call *call, const struct policy_values *now,
			   struct vgpu_error *err)
{
	int r = policy_change_make(call, now, err);

	if (r < 0 || call_int(call, "force", 0))
		return r;
	free(call->refusal);
	call->refusal = claimed_refusal(call->gpu, call->request.event.policy);
	return call->refusal ? -EBUSY : r;
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
	r = prepare_save(call, -1, err);
	if (r < 0)
		return r;
	call->then = on_set;
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

/* A VM's claim determines its VF's parameters: vgpud would undo another change when it reads the
 * claim again. */
static int refuse_if_leased(const struct call *call, struct vgpu_error *err)
{
	const struct lease *l = &call->gpu->leases[call->vf];
	struct vgpu_error changes = {""};
	size_t n = 0;
	json *given;

	if (l->state == LEASE_NONE)
		return 0;
	json_object_object_get_ex(call->args, "params", &given);
	json_object_object_foreach(given, key, value)
	{
		if (n < sizeof(changes.text))
			n += (size_t)snprintf(changes.text + n, sizeof(changes.text) - n,
					      l->by == CLAIM_BY_VM ? " %s:%.40s=%.40s"
								   : "%.0s %.40s=%.40s",
					      l->vf_name, key, json_object_get_string(value));
	}
	if (l->by != CLAIM_BY_VM)
		return vgpu_error_set(err, -EBUSY,
				      "VF %u of %s belongs to %s %.80s: use 'vgpuctl container set "
				      "%s%s'",
				      call->vf, call->gpu->config->name, claim_by_names[l->by],
				      l->domain, l->uuid, changes.text);
	return vgpu_error_set(err, -EBUSY,
			      "VF %u of %s belongs to VM %.80s, whose claim decides: use 'vgpuctl "
			      "vm set %.80s%s'",
			      call->vf, call->gpu->config->name, l->domain, l->domain,
			      changes.text);
}

/* A VM may have got the VF since the call began. */
static int make_vf_set(struct call *call, const struct policy_values *now, struct vgpu_error *err)
{
	int r = refuse_if_leased(call, err);

	return r < 0 ? r : vf_change_make(call, now, err);
}

int begin_vf_set(struct control *control, struct call *call, struct vgpu_error *err)
{
	int r = call_find_gpu(control, call, err);

	if (r == 0)
		r = call_find_vf(call, &call->vf, err);
	if (r == 0)
		r = refuse_if_leased(call, err);
	if (r < 0)
		return r;
	call_in_ppm(call, change_policy_of(call->gpu)->policy->vf_params);
	r = prepare_save(call, (int32_t)call->vf, err);
	if (r < 0)
		return r;
	call->then = on_set;
	return change_request(call, make_vf_set, err);
}

json *finish_vf_set(struct call *call)
{
	return params_json(call->request.event.policy->vf_params, call->params);
}
