/* SPDX-License-Identifier: MIT */
#include "args.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

const char *call_text(const struct call *call, const char *name)
{
	json *value;

	return json_object_object_get_ex(call->args, name, &value) ? json_object_get_string(value)
								   : NULL;
}

const char *call_host(const struct call *call)
{
	const char *host = call_text(call, "host");

	return host ? host : "";
}

int64_t call_int(const struct call *call, const char *name, int64_t otherwise)
{
	json *value;

	return json_object_object_get_ex(call->args, name, &value) ? json_object_get_int64(value)
								   : otherwise;
}

/* Finds the GPU that the call names; without a name, the only GPU. */
int call_find_gpu(struct control *control, struct call *call, struct vgpu_error *err)
{
	const char *name = call_text(call, "gpu");
	uint32_t i;

	if (!name && control->n_gpus > 1)
		return vgpu_error_set(err, -EINVAL,
				      "%u GPUs are configured: choose one with gpu ('vgpuctl --gpu "
				      "NAME'; 'vgpuctl gpu list' shows them)",
				      control->n_gpus);
	for (i = 0; i < control->n_gpus; i++)
		if (!name || strcmp(control->gpus[i].config->name, name) == 0)
			call->gpu = &control->gpus[i];
	if (!call->gpu)
		return vgpu_error_set(err, -ENOENT,
				      "gpu %.40s: no such GPU; 'vgpuctl gpu list' shows them",
				      name);
	return 0;
}

int call_find_vf(struct call *call, uint32_t *vf, struct vgpu_error *err)
{
	int64_t n = call_int(call, "vf", 0);

	if (n >= call->gpu->config->vfs)
		return vgpu_error_set(err, -ENOENT, "vf %" PRId64 ": %s has VFs 0 to %" PRId64, n,
				      call->gpu->config->name, call->gpu->config->vfs - 1);
	*vf = (uint32_t)n;
	return 0;
}

json *params_json(const struct vgpu_param *table, const int64_t *values)
{
	json *o = json_object_new_object();
	int i;

	for (i = 0; table[i].name; i++) {
		if (table[i].type == VGPU_PARAM_CHOICE)
			put_text(o, table[i].name, table[i].choices[values[i]]);
		else
			put_int(o, table[i].name, (uint64_t)values[i]);
	}
	return o;
}

void call_in_ppm(struct call *call, const struct vgpu_param *table)
{
	json *given, *all = json_object_new_object();
	const struct vgpu_param *p;
	int64_t ppm;

	if (!json_object_object_get_ex(call->args, "params", &given)) {
		json_object_put(all);
		return;
	}
	json_object_object_foreach(given, key, value)
	{
		p = value ? vgpu_param_in_percent(table, key, json_object_get_string(value), &ppm)
			  : NULL;
		if (p && ppm >= 0)
			json_object_object_add(all, p->name, json_object_new_int64(ppm));
		else
			json_object_object_add(all, key, json_object_get(value));
	}
	json_object_object_add(call->args, "params", all);
}

int call_params(const struct call *call, const struct vgpu_param *table, int64_t *values,
		struct vgpu_error *err)
{
	int64_t copy[VGPU_MAX_PARAMS];
	json *given;
	int r;

	memcpy(copy, values, sizeof(copy));
	if (!json_object_object_get_ex(call->args, "params", &given))
		return 0;
	json_object_object_foreach(given, key, value)
	{
		if (!value)
			return vgpu_error_set(err, -EINVAL, "%.40s = null: want a value", key);
		r = vgpu_param_set(table, key, json_object_get_string(value), copy, err);
		if (r < 0)
			return r;
	}
	memcpy(values, copy, sizeof(copy));
	return 0;
}

int call_look_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	int r = call_find_gpu(control, call, err);

	if (r < 0)
		return r;
	call->request.ask = ENGINE_SNAPSHOT;
	call->request.snapshot = &call->snapshot;
	return call_send(call, err);
}

void put_scheduler(json *o, const struct engine_snapshot *s)
{
	put_text(o, "scheduler", s->governed ? "firmware" : s->declared ? "driver" : "vgpud");
}

void put_bound(json *o, const char *key, vgpu_nsec value)
{
	json_object_object_add(o, key,
			       value == VGPU_NEVER ? NULL : json_object_new_int64((int64_t)value));
}
