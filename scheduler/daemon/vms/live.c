/* SPDX-License-Identifier: MIT */
#include "live.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "control/args.h"
#include "control/log.h"
#include "plugin.h"
#include "policy_change.h"
#include "control/put.h"
#include "vgpu/file.h"

static bool is_live_policy(const struct gpu *gpu)
{
	const struct policy_values *now = change_policy_of(gpu);

	return gpu->live.policy &&
	       (now->policy != gpu->config->ops ||
		memcmp(now->params, gpu->config->params, sizeof(now->params)) != 0);
}

static bool is_live_vf(const struct gpu *gpu, uint32_t vf)
{
	const struct policy_values *now = change_policy_of(gpu);

	return gpu->live.vfs >> vf & 1 && gpu->leases[vf].state == LEASE_NONE &&
	       (now->policy != gpu->config->ops ||
		memcmp(now->vf_params[vf], gpu->config->vf_params[vf],
		       sizeof(now->vf_params[vf])) != 0);
}

/* All values as texts: a later vgpud may have another configuration. */
static json *values_json(const struct vgpu_param *table, const int64_t *values)
{
	json *o = json_object_new_object();
	char text[64];
	int i;

	for (i = 0; table[i].name; i++) {
		vgpu_param_text(&table[i], values[i], text, sizeof(text));
		put_text(o, table[i].name, text);
	}
	return o;
}

static void add(json *list, const struct gpu *gpu, int32_t vf)
{
	const struct policy_values *now = change_policy_of(gpu);
	json *o = json_object_new_object();

	put_text(o, "gpu", gpu->config->name);
	if (vf >= 0)
		put_int(o, "vf", (uint64_t)vf);
	else
		put_text(o, "policy", now->policy->name);
	json_object_object_add(o, "params",
			       vf < 0 ? values_json(now->policy->params, now->params)
				      : values_json(now->policy->vf_params, now->vf_params[vf]));
	if (vf >= 0)
		json_object_object_add(o, "set", json_object_get(gpu->live.set[vf]));
	json_object_array_add(list, o);
}

static void save(struct control *control)
{
	json *list = json_object_new_array();
	const char *path = control->config->live, *text;
	uint32_t g, vf;
	int r = 0;

	for (g = 0; g < control->n_gpus; g++) {
		const struct gpu *gpu = &control->gpus[g];

		if (is_live_policy(gpu))
			add(list, gpu, -1);
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
			if (is_live_vf(gpu, vf))
				add(list, gpu, (int32_t)vf);
	}
	text = json_object_to_json_string_ext(list, JSON_C_TO_STRING_PRETTY);
	if (json_object_array_length(list) > 0)
		r = vgpu_file_replace(path, 0644, text, strlen(text));
	else if (unlink(path) < 0 && errno != ENOENT)
		r = -errno;
	if (r < 0)
		log_line(LOG_ERR, "cannot write %s: %s; a crash of vgpud would undo live changes",
			 path, strerror(-r));
	json_object_put(list);
}

/* Adds a VF's present values to its live changes. */
static void remember(struct gpu *gpu, uint32_t vf)
{
	const struct policy_values *now = change_policy_of(gpu);
	json *o = values_json(now->policy->vf_params, now->vf_params[vf]);

	if (!gpu->live.set[vf])
		gpu->live.set[vf] = json_object_new_object();
	json_object_object_foreach(o, name, value)
		json_object_object_add(gpu->live.set[vf], name, json_object_get(value));
	json_object_put(o);
}

static void forget(struct gpu *gpu, uint32_t vf)
{
	gpu->live.vfs &= ~VGPU_VF_BIT(vf);
	json_object_put(gpu->live.set[vf]);
	gpu->live.set[vf] = NULL;
}

void live_changed_policy(struct gpu *gpu)
{
	gpu->live.policy = true;
	save(gpu->control);
}

void live_changed_vf(struct gpu *gpu, uint32_t vf)
{
	gpu->live.vfs |= VGPU_VF_BIT(vf);
	remember(gpu, vf);
	save(gpu->control);
}

void live_forget_vf(struct gpu *gpu, uint32_t vf)
{
	if (!(gpu->live.vfs >> vf & 1))
		return;
	forget(gpu, vf);
	save(gpu->control);
}

void live_forget(struct gpu *gpu)
{
	uint32_t vf;

	gpu->live.policy = false;
	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++)
		forget(gpu, vf);
	save(gpu->control);
}

/* VF: -1 for the policy. */
static struct log_about about(const struct gpu *gpu, int32_t vf)
{
	return vf < 0 ? about_gpu(gpu, LOG_PLAIN) : about_vf(gpu, (uint32_t)vf, LOG_PLAIN);
}

static void on_kept(struct call *call)
{
	struct gpu *gpu = call->gpu;
	bool of_vf = !call->policy;
	struct log_about what = about(gpu, of_vf ? (int32_t)call->vf : -1);

	/* Changes that were in force together may be refused in this order: a guarantee may need
	 * time that the next change frees. */
	if (call->request.result < 0 && !call->again) {
		call->again = true;
		change_begin(call, of_vf ? vf_change_make : policy_change_make);
		return;
	}
	if (call->request.result < 0) {
		log_about(what, LOG_WARNING, "a live change was lost in the crash: %s",
			  call->request.why);
	} else {
		log_about(what, LOG_NOTICE, "a live change survived the crash: %s",
			  json_object_to_json_string_ext(call->args, JSON_C_TO_STRING_PLAIN));
		gpu->live.policy |= !of_vf;
		if (of_vf) {
			gpu->live.vfs |= VGPU_VF_BIT(call->vf);
			remember(gpu, call->vf);
		}
	}
	call_drop(call);
}

/* Begins the change that one element of the list describes. Returns 0, or -errno with the reason in
 * ERR: the change is dropped. */
static int begin_kept(struct control *control, json *o, struct vgpu_error *err)
{
	const char *name = json_object_get_string(json_object_object_get(o, "gpu"));
	const char *policy = json_object_get_string(json_object_object_get(o, "policy"));
	json *params = json_object_object_get(o, "params");
	int64_t vf = json_object_get_int64(json_object_object_get(o, "vf"));
	struct gpu *gpu = NULL;
	struct call *call;
	uint32_t g;

	for (g = 0; g < control->n_gpus && name; g++)
		if (strcmp(control->gpus[g].config->name, name) == 0)
			gpu = &control->gpus[g];
	if (!gpu || !json_object_is_type(params, json_type_object) || vf < 0 ||
	    vf >= gpu->config->vfs)
		return vgpu_error_set(err, -ENOENT, "its GPU or VF is no longer configured");
	if (!policy && gpu->leases[vf].state != LEASE_NONE)
		return 0;
	if (!policy && json_object_is_type(json_object_object_get(o, "set"), json_type_object) &&
	    !gpu->live.set[vf])
		gpu->live.set[vf] = json_object_get(json_object_object_get(o, "set"));
	call = call_new(control, gpu);
	if (!call)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	call->args = json_object_new_object();
	json_object_object_add(call->args, "params", json_object_get(params));
	call->vf = (uint32_t)vf;
	call->then = on_kept;
	if (policy) {
		put_text(call->args, "policy", policy);
		call->policy = plugin_policy(control->config->policy_dir, policy, err);
		if (!call->policy) {
			call_drop(call);
			return -EINVAL;
		}
	}
	change_begin(call, policy ? policy_change_make : vf_change_make);
	return 0;
}

void live_load(struct control *control)
{
	const char *path = control->config->live;
	struct vgpu_error err;
	json *list;
	size_t i;

	if (access(path, F_OK) < 0)
		return;
	list = json_object_from_file(path);
	if (!json_object_is_type(list, json_type_array))
		log_line(LOG_ERR, "%s: not a list of live changes: they are lost", path);
	for (i = 0;
	     json_object_is_type(list, json_type_array) && i < json_object_array_length(list);
	     i++) {
		json *o = json_object_array_get_idx(list, i);

		if (begin_kept(control, o, &err) < 0)
			log_line(LOG_WARNING, "a live change was lost in the crash: %s: %s",
				 json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN),
				 err.text);
	}
	json_object_put(list);
}

/* Logs the differences from the configuration. */
static void tell_params(const struct gpu *gpu, int32_t vf, const struct vgpu_param *table,
			const int64_t *now, const int64_t *configured)
{
	char has[64], gets[64];
	int i;

	for (i = 0; table[i].name; i++) {
		if (now[i] == configured[i])
			continue;
		vgpu_param_text(&table[i], now[i], has, sizeof(has));
		vgpu_param_text(&table[i], configured[i], gets, sizeof(gets));
		log_about(about(gpu, vf), LOG_NOTICE,
			  "%s = %s was not saved, and is lost: the next vgpud begins with %s",
			  table[i].name, has, gets);
	}
}

static void tell(const struct gpu *gpu)
{
	const struct policy_values *now = change_policy_of(gpu);
	const struct gpu_config *g = gpu->config;
	int64_t usual[VGPU_MAX_PARAMS];
	uint32_t vf;

	if (is_live_policy(gpu) && now->policy != g->ops)
		log_about(about(gpu, -1), LOG_NOTICE,
			  "policy %s was not saved, and is lost: the next vgpud begins with %s",
			  now->policy->name, g->ops->name);
	else if (is_live_policy(gpu))
		tell_params(gpu, -1, now->policy->params, now->params, g->params);
	for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
		if (!is_live_vf(gpu, vf))
			continue;
		config_vf_usual(g, vf, now->policy, usual);
		tell_params(gpu, (int32_t)vf, now->policy->vf_params, now->vf_params[vf], usual);
	}
}

void live_end(struct control *control)
{
	uint32_t g;

	for (g = 0; g < control->n_gpus; g++)
		tell(&control->gpus[g]);
	if (unlink(control->config->live) < 0 && errno != ENOENT)
		log_line(LOG_WARNING, "cannot remove %s: %s; the next vgpud will begin with it",
			 control->config->live, strerror(errno));
}
