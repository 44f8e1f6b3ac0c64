/* SPDX-License-Identifier: MIT */
/*
 * What is configured is what the files say now: that is what a restart would bring. What runs is
 * what vgpud has read at its start, with the policies and parameters that are in force. Parameters
 * of VFs that VMs have are left out: they come from the VMs' claims.
 */
#include "config_methods.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "change.h"
#include "config_keys.h"
#include "put.h"

/* Sets OUT to the configuration as it runs. */
static void running(const struct control *control, struct config *out)
{
	uint32_t i;

	*out = *control->config;
	for (i = 0; i < control->n_gpus; i++) {
		const struct policy_values *now = change_policy_of(&control->gpus[i]);
		struct gpu_config *g = &out->gpus[i];

		g->ops = now->policy;
		memcpy(g->policy, now->policy->name, sizeof(g->policy));
		memcpy(g->params, now->params, sizeof(g->params));
		memcpy(g->vf_params, now->vf_params, sizeof(g->vf_params));
	}
}

/* Reads the files. Returns 0, or -errno with all their mistakes in ERR. */
static int read_files(const struct control *control, struct config *out, struct vgpu_error *err)
{
	char *said = NULL;
	size_t size;
	FILE *errors = open_memstream(&said, &size);
	int r;

	if (!errors)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = config_read(out, control->config->file, errors);
	fclose(errors);
	if (r < 0)
		vgpu_error_set(err, r, "%s", said);
	free(said);
	return r;
}

/* Adds a key to an object: {section: {key: {value, live}}}. */
static void see(void *data, const char *section, const char *key, const char *value, bool live)
{
	json *all = data, *in, *o = json_object_new_object();

	if (!json_object_object_get_ex(all, section, &in)) {
		in = json_object_new_object();
		json_object_object_add(all, section, in);
	}
	put_text(o, "value", value);
	put_bool(o, "live", live);
	json_object_object_add(in, key, o);
}

static json *keys_of(const struct config *config)
{
	json *all = json_object_new_object();

	config_walk(config, see, all);
	return all;
}

/* Whether the section is that of a VF that a VM has. */
static bool is_leased(const struct control *control, const char *section)
{
	char name[48];
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			snprintf(name, sizeof(name), "vf %s/%u", control->gpus[g].config->name, vf);
			if (strcmp(name, section) == 0)
				return control->gpus[g].leases[vf].state != LEASE_NONE;
		}
	return false;
}

static json *value_in(json *all, const char *section, const char *key)
{
	return json_object_object_get(json_object_object_get(all, section), key);
}

/* Adds the keys of ONE that OTHER has not, or (unless ONLY_MISSING) with another value. */
static void compare(const struct control *control, json *list, json *one, json *other,
		    bool one_runs, bool only_missing)
{
	json_object_object_foreach(one, section, keys)
	{
		bool leased = is_leased(control, section);

		json_object_object_foreach(keys, key, o)
		{
			json *p = value_in(other, section, key), *row;
			json *value = json_object_object_get(o, "value");
			json *with = json_object_object_get(p, "value");
			bool live = json_object_get_boolean(json_object_object_get(o, "live"));

			if ((p && only_missing) || (p && json_object_equal(value, with)) ||
			    (leased && live))
				continue;
			row = json_object_new_object();
			put_text(row, "section", section);
			put_text(row, "key", key);
			json_object_object_add(row, "running",
					       json_object_get(one_runs ? value : with));
			json_object_object_add(row, "configured",
					       json_object_get(one_runs ? with : value));
			/* A GPU or a VF that is new, or gone, needs a restart as a whole. */
			put_bool(row, "live",
				 live && (strncmp(section, "profile ", 8) == 0 ||
					  json_object_object_get_ex(other, section, NULL)));
			json_object_array_add(list, row);
		}
	}
}

static json *differences(const struct control *control, const struct config *runs,
			 const struct config *configured)
{
	json *list = json_object_new_array(), *a = keys_of(runs), *b = keys_of(configured);

	compare(control, list, a, b, true, false);
	compare(control, list, b, a, false, true);
	json_object_put(a);
	json_object_put(b);
	return list;
}

int config_diff_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	struct config *runs = calloc(2, sizeof(*runs));
	json *o;
	int r;

	if (!runs)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	running(control, runs);
	r = read_files(control, runs + 1, err);
	if (r == 0) {
		o = json_object_new_object();
		put_text(o, "file", control->config->file);
		json_object_object_add(o, "differences", differences(control, runs, runs + 1));
		call_answer(call, o);
	}
	free(runs);
	return r;
}
