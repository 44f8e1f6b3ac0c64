/* SPDX-License-Identifier: MIT */
/*
 * The configured values are those of the files now, which a restart would apply. The running values
 * are those that vgpud has read at its start, with the policies and parameters in force. Parameters
 * of VFs that belong to VMs are left out: they come from the VMs' claims.
 */
#include "config_methods.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/args.h"
#include "vms/claimed.h"
#include "check_running.h"
#include "config/config_keys.h"
#include "config/names.h"
#include "vms/live.h"
#include "control/log.h"
#include "vms/policy_change.h"
#include "control/put.h"
#include "control/offers.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* Sets OUT to the running configuration. */
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

/* Reads and checks the files. Returns 0; or -errno with all their mistakes, as a text that the
 * caller frees. */
static int read_files(const struct control *control, struct config *out, char **said)
{
	size_t size;
	FILE *errors = open_memstream(said, &size);
	int r;

	if (!errors)
		return -ENOMEM;
	r = config_read(out, control->config->file, errors);
	if (r == 0)
		r = config_check_running(out, control, errors);
	fclose(errors);
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

/* Returns whether the section is for a VF that belongs to a VM. */
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

/* Adds the keys of ONE that OTHER lacks, or (unless ONLY_MISSING) has with another value. */
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
			/* A new or removed GPU or VF needs a restart as a whole. */
			put_bool(row, "live",
				 live && (strncmp(section, "profile ", 8) == 0 ||
					  strncmp(section, "tenant ", 7) == 0 ||
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

/* A reload in progress: GPU by GPU, and back again if one of them refuses. */
struct reload {
	struct config runs, configured;
	int names; /* descriptor of the name lookup; -1: none */
	struct event *named;
	vgpu_nsec names_until;
	struct policy_values wanted, before[CONFIG_MAX_GPUS];
	uint32_t at;
	int refused;	       /* the error of a GPU that has refused; 0: none has */
	char why[300], *drops; /* DROPS: a long reason in full, owned by the call; or NULL */
	const char *left;      /* a GPU whose former values could not be restored, or NULL */
};

static void free_reload(void *data)
{
	struct reload *reload = data;

	if (reload->named)
		event_free(reload->named);
	vgpu_close(&reload->names);
	free(reload);
}

static struct reload *new_reload(struct call *call)
{
	struct reload *reload = calloc(1, sizeof(*reload));

	if (!reload)
		return NULL;
	reload->names = -1;
	call->free_job = free_reload;
	call->job = reload;
	return reload;
}

static struct gpu_config *same_gpu(struct config *config, const struct gpu *gpu)
{
	uint32_t i;

	for (i = 0; i < config->n_gpus; i++)
		if (strcmp(config->gpus[i].name, gpu->config->name) == 0)
			return &config->gpus[i];
	return NULL;
}

static void copy_live(enum section section, void *to, const void *from)
{
	const struct config_key *k;

	for (k = config_keys; k->name; k++)
		if (k->section == section && k->when == LIVE)
			memcpy((char *)to + k->at, (const char *)from + k->at, k->size);
}

/* A section whose user was not found keeps its former owner. */
static void keep_whose(const struct config *was, struct config *configured)
{
	struct tenant_config *t = configured->tenants;
	uint32_t i;

	for (; t < configured->tenants + configured->n_tenants; t++) {
		if (!t->unanswered)
			continue;
		for (i = 0; i < was->n_tenants; i++)
			if (strcmp(was->tenants[i].name, t->name) == 0)
				t->number = was->tenants[i].number;
		log_line(LOG_WARNING, "[tenant %s]: the host's name service does not answer: %s",
			 t->name,
			 t->number == CONFIG_NOBODY
				 ? "nobody has these limits until the configuration is reloaded"
				 : "its limits are those of whoever had the name when it did");
	}
}

/* All GPUs have the configured values: takes over the other keys that need no restart. */
static void adopt(struct control *control, struct config *configured)
{
	struct config *c = control->config;
	uint32_t i;

	copy_live(DAEMON, c, configured);
	c->n_profiles = configured->n_profiles;
	memcpy(c->profiles, configured->profiles, sizeof(c->profiles));
	keep_whose(c, configured);
	c->n_tenants = configured->n_tenants;
	memcpy(c->tenants, configured->tenants, sizeof(c->tenants));
	memcpy(c->files, configured->files, sizeof(c->files)); /* the places that refusals name */
	for (i = 0; i < control->n_gpus; i++) {
		struct gpu *gpu = &control->gpus[i];
		const struct gpu_config *g = same_gpu(configured, gpu);

		if (!g)
			continue;
		copy_live(GPU, gpu->config, g);
		gpu->config->ops = g->ops;
		memcpy(gpu->config->params, g->params, sizeof(g->params));
		memcpy(gpu->config->vf_params, g->vf_params, sizeof(g->vf_params));
		live_forget(gpu);
	}
	offers_changed(control);
}

/* Ends the call without a change. The answer to a SIGHUP goes to the log, line by line. */
static void refuse(struct call *call, int r, const char *text)
{
	const char *line;
	size_t n;

	for (line = text; !call->client && *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		log_line(LOG_ERR, "the configuration was not reloaded: %.*s", (int)n, line);
	}
	call_fail(call, r, text);
}

/* Ends a reload that has taken effect as far as possible. */
static void succeed(struct call *call, json *answer)
{
	json *list = json_object_object_get(answer, "differences");
	size_t i, restart = 0;

	for (i = 0; i < json_object_array_length(list); i++)
		restart += !json_object_get_boolean(
			json_object_object_get(json_object_array_get_idx(list, i), "live"));
	if (!call->client && restart)
		log_line(LOG_NOTICE,
			 "the configuration was reloaded; %zu of its keys need a restart: 'vgpuctl "
			 "config diff' lists them",
			 restart);
	else if (!call->client)
		log_line(LOG_INFO, "the configuration was reloaded");
	call_answer(call, answer);
}

static void next_gpu(struct call *call);

/* A change_make: applies the configured values; or the former ones, if a GPU has refused. */
static int make(struct call *call, const struct policy_values *now, struct vgpu_error *err)
{
	struct reload *reload = call->job;
	struct policy_values *before = &reload->before[reload->at], *want = &reload->wanted;
	const struct gpu_config *g = same_gpu(&reload->configured, call->gpu);

	if (!g)
		return 1;
	if (reload->refused) {
		*want = *before;
	} else {
		*before = *now;
		want->policy = g->ops;
		memcpy(want->params, g->params, sizeof(want->params));
		memcpy(want->vf_params, g->vf_params, sizeof(want->vf_params));
	}
	call->request.keep = true; /* a lost GPU does not block the others */
	if (!reload->refused && !call_int(call, "force", 0)) {
		free(call->refusal);
		call->refusal = claimed_refusal(call->gpu, want->policy);
		if (call->refusal)
			return vgpu_error_set(err, -EBUSY, "%s", call->refusal);
	}
	return whole_change(call, want, now);
}

static void on_reloaded(struct call *call)
{
	struct reload *reload = call->job;

	if (call->request.result < 0 && reload->refused) {
		reload->left = call->gpu->config->name;
		log_about(about_gpu(call->gpu, LOG_PLAIN), LOG_ERR,
			  "the former values cannot be put back: %s", call->request.why);
	}
	if (call->request.result >= 0 || reload->refused) {
		reload->at += reload->refused ? -1 : 1;
		next_gpu(call);
		return;
	}
	reload->refused = call->request.result;
	reload->drops = call->refusal;
	snprintf(reload->why, sizeof(reload->why), "%s: %.200s", call->gpu->config->name,
		 call->request.why);
	reload->at--;
	next_gpu(call);
}

/* Changes the next GPU, or ends the reload. AT counts up, or down after a refusal. */
static void next_gpu(struct call *call)
{
	struct control *control = call->control;
	struct reload *reload = call->job;
	json *answer;
	char text[400];

	if (reload->refused && reload->at == UINT32_MAX) {
		snprintf(text, sizeof(text), "%s%s: %s",
			 reload->left ? reload->left : "nothing was changed",
			 reload->left ? " has new values that cannot be taken back" : "",
			 reload->why);
		change_reloaded(control);
		refuse(call, reload->refused,
		       reload->drops && !reload->left ? reload->drops : text);
		return;
	}
	if (reload->at == control->n_gpus) {
		answer = json_object_get(json_object_object_get(call->args, "answer"));
		adopt(control, &reload->configured);
		change_reloaded(control);
		succeed(call, answer);
		return;
	}
	call->gpu = &control->gpus[reload->at];
	call->then = on_reloaded;
	change_begin(call, make);
}

/* Reads the files, and answers with the differences. Returns whether the call goes on. */
static bool begin_reload(struct control *control, struct call *call, struct reload *reload,
			 json **answer)
{
	char *said = NULL;
	int r;

	running(control, &reload->runs);
	r = read_files(control, &reload->configured, &said);
	if (r < 0) {
		refuse(call, r, said && *said ? said : strerror(-r));
	} else {
		*answer = json_object_new_object();
		put_text(*answer, "file", control->config->file);
		json_object_object_add(*answer, "differences",
				       differences(control, &reload->runs, &reload->configured));
	}
	free(said);
	return r == 0;
}

int config_diff_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	struct reload *reload = new_reload(call);
	json *answer;

	if (!reload)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	if (begin_reload(control, call, reload, &answer))
		call_answer(call, answer);
	return 0;
}

/* The names are known, or their time is over. */
static void begin_changes(struct call *call)
{
	call->control->reloading.names = false;
	change_reload(call);
	next_gpu(call);
}

static void on_names(evutil_socket_t fd, short what, void *data)
{
	struct call *call = data;
	struct reload *reload = call->job;
	bool more = !(what & EV_TIMEOUT) && names_read(fd, &reload->configured);
	vgpu_nsec now = vgpu_now(), left;
	struct timeval timeout;

	left = reload->names_until > now ? reload->names_until - now : 0;
	timeout = (struct timeval){(time_t)(left / VGPU_SEC),
				   (suseconds_t)(left % VGPU_SEC / VGPU_USEC)};
	if (!more || left == 0 || event_add(reload->named, &timeout) < 0)
		begin_changes(call);
}

int config_reload_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	struct reload *reload;
	json *answer;

	if (control->reloading.call || control->reloading.names)
		return vgpu_error_set(err, -EBUSY, "a reload is under way; try again");
	reload = new_reload(call);
	if (!reload)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	if (!begin_reload(control, call, reload, &answer))
		return 0;
	if (!call->args)
		call->args = json_object_new_object();
	json_object_object_add(call->args, "answer", answer);
	reload->names = names_ask(&reload->configured);
	if (reload->names >= 0)
		reload->named = event_new(control->base, reload->names, EV_READ, on_names, call);
	if (!reload->named) {
		begin_changes(call);
		return 0;
	}
	control->reloading.names = true;
	reload->names_until = vgpu_now() + NAMES_RELOAD_MS * VGPU_MSEC;
	on_names(reload->names, 0, call);
	return 0;
}

void config_reload_begin_alone(struct control *control)
{
	struct vgpu_error err = {"out of memory"};
	struct call *call = call_new(control, NULL);
	int r = call ? config_reload_begin(control, call, &err) : -ENOMEM;

	if (r < 0 && call)
		refuse(call, r, err.text);
}
