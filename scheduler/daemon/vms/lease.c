/* SPDX-License-Identifier: MIT */
#include "lease.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control/change.h"
#include "claimed.h"
#include "hold.h"
#include "control/log.h"
#include "control/put.h"
#include "travel.h"
#include "vm_door.h"
#include "vgpu/descriptor.h"
#include "vgpu/file.h"
#include "vgpu/param.h"

const char *const lease_state_names[LEASE_STATES] = {"none", "reserved", "running", "incoming",
						     "held"};

/* The state of an entry without a lease: the VF's last tenant is gone, and the VF was not reset
 * since. */
#define CLEARING "clearing"

const char *const control_warning_names[CONTROL_WARNINGS] = {"unadmitted", "wrong-device",
							     "may-lose-state"};

bool lease_is_of(const struct lease *l, const char *host, const char *uuid)
{
	/* Marks programs and containers, which have no libvirt. */
	bool is_there =
		(!host[0] && l->by == CLAIM_BY_VM) || !l->host[0] || strcmp(l->host, host) == 0;

	return l->state != LEASE_NONE && strcmp(l->uuid, uuid) == 0 && is_there;
}

bool lease_is_open(const struct lease *l, const struct claim *claim)
{
	return l->state == LEASE_NONE ||
	       (l->state == LEASE_HELD && claim->by == CLAIM_BY_CONTAINER &&
		l->owner == claim->owner && strcmp(l->id, claim->id) == 0);
}

bool lease_is_given(const struct lease *l)
{
	return l->state != LEASE_NONE &&
	       (l->state != LEASE_RUNNING || l->by == CLAIM_BY_VM || l->process);
}

struct lease *lease_find(struct control *control, const struct claim *claim, const char *vf_name,
			 struct gpu **gpu, uint32_t *vf)
{
	for (*gpu = control->gpus; *gpu < control->gpus + control->n_gpus; (*gpu)++)
		for (*vf = 0; *vf < VGPU_GPU_MAX_VFS; (*vf)++) {
			struct lease *l = &(*gpu)->leases[*vf];

			/* A held VF can be claimed again under its name. */
			if (l->state != LEASE_HELD && lease_is_of(l, claim->host, claim->uuid) &&
			    (!vf_name || strcmp(l->vf_name, vf_name) == 0))
				return l;
		}
	return NULL;
}

struct json_object *lease_params(struct gpu *gpu, uint32_t vf)
{
	const struct policy_values *now = change_policy_of(gpu);
	const struct vgpu_param *table = now->policy->vf_params;
	struct lease *l = &gpu->leases[vf];
	char text[32];
	int i;

	if (!l->params)
		l->params = json_object_new_object();
	for (i = 0; table[i].name && !l->restoring; i++) {
		vgpu_param_text(&table[i], now->vf_params[vf][i], text, sizeof(text));
		put_text(l->params, table[i].name, text);
	}
	return l->params;
}

void lease_clear(struct lease *l)
{
	json_object_put(l->params);
	json_object_put(l->claimed);
	json_object_put(l->engine_names);
	if (l->process)
		vgpu_close(&l->pidfd);
	*l = (struct lease){.state = LEASE_NONE};
}

static struct json_object *to_json(struct control *control)
{
	struct json_object *list = json_object_new_array(), *o;
	const struct lease *l;
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			l = &control->gpus[g].leases[vf];
			if (l->state == LEASE_NONE && !(control->gpus[g].clearing.vfs >> vf & 1))
				continue;
			/* After a restart, a reservation without a process would never end. */
			if (l->state != LEASE_NONE && !lease_is_given(l))
				continue;
			o = json_object_new_object();
			json_object_array_add(list, o);
			put_text(o, "gpu", control->gpus[g].config->name);
			json_object_object_add(o, "vf", json_object_new_int64(vf));
			put_text(o, "state",
				 l->state == LEASE_NONE ? CLEARING : lease_state_names[l->state]);
			if (l->state == LEASE_NONE)
				continue;
			put_text(o, "host", l->host);
			put_text(o, "uuid", l->uuid);
			put_text(o, "domain", l->domain);
			put_text(o, "vf_name", l->vf_name);
			json_object_object_add(o, "since_ns",
					       json_object_new_int64((int64_t)l->since));
			json_object_object_add(o, "expires_ns", json_object_new_int64(l->expires));
			json_object_object_add(o, "resumes_by_ns",
					       json_object_new_int64(l->resumes_by));
			json_object_object_add(o, "owed_ns", json_object_new_int64(l->owed));
			json_object_object_add(o, "loses_by_ns",
					       json_object_new_int64((int64_t)l->loses_by));
			put_text(o, "on_hang", claim_on_hang_names[l->on_hang]);
			json_object_object_add(o, "hung", json_object_new_boolean(l->hung));
			json_object_object_add(o, "attached", json_object_new_boolean(l->attached));
			put_text(o, "by", claim_by_names[l->by]);
			json_object_object_add(o, "owner", json_object_new_int64(l->owner));
			put_text(o, "id", l->id);
			json_object_object_add(o, "engine_names", json_object_get(l->engine_names));
			/* libvirt identifies a VM's process (seat.h). */
			json_object_object_add(o, "process",
					       json_object_new_int64(
						       l->by == CLAIM_BY_VM ? 0 : l->process));
			json_object_object_add(o, "started",
					       json_object_new_int64((int64_t)l->started));
			json_object_object_add(o, "worker", json_object_new_int64(l->worker));
			json_object_object_add(o, "worker_started",
					       json_object_new_int64((int64_t)l->worker_started));
			json_object_object_add(o, "memory_bytes",
					       json_object_new_int64((int64_t)l->memory));
			json_object_object_add(o, "claimed", json_object_get(l->claimed));
			put_text(o, "claimed_policy", l->claimed_policy);
			json_object_object_add(o, "params",
					       json_object_get(
						       lease_params(&control->gpus[g], vf)));
		}
	return list;
}

void leases_save(struct control *control)
{
	struct json_object *list = to_json(control);
	const char *text = json_object_to_json_string_ext(list, JSON_C_TO_STRING_PRETTY);
	const char *path = control->config->leases;
	int r = vgpu_file_replace(path, 0644, text, strlen(text));

	if (r < 0)
		log_line(LOG_ERR,
			 "cannot write %s: %s; a restarted vgpud will not know which VM has which "
			 "VF",
			 path, strerror(-r));
	json_object_put(list);
}

static const char *text_of(struct json_object *o, const char *key)
{
	struct json_object *value;

	return json_object_object_get_ex(o, key, &value) ? json_object_get_string(value) : "";
}

static int64_t number_of(struct json_object *o, const char *key)
{
	struct json_object *value;

	return json_object_object_get_ex(o, key, &value) ? json_object_get_int64(value) : -1;
}

/* Restores the VM's parameters. Omits those that the policy does not have; the policy's other
 * parameters have their configured values. */
static int make_saved(struct call *call, const struct policy_values *now, struct vgpu_error *)
{
	memcpy(call->params, now->vf_params[call->vf], sizeof(call->params));
	json_object_object_foreach(call->args, name, value)
		vgpu_param_set(now->policy->vf_params, name, json_object_get_string(value),
			       call->params, NULL);
	change_set_vf(call, now);
	return 0;
}

/* Guarantees that were admitted together may be refused in this order, and are tried again after
 * all others: the changes of a GPU are made one after the other. */
static void on_restored(struct call *call)
{
	struct lease *l = &call->gpu->leases[call->vf];

	if (call->request.result < 0 && l->restoring == RESTORE_FIRST) {
		l->restoring = RESTORE_AGAIN;
		change_begin(call, make_saved);
		return;
	}
	l->restoring = RESTORE_NONE;
	change_told(call);
}

static void load_params(struct gpu *gpu, uint32_t vf, struct json_object *lease)
{
	struct json_object *params;
	struct call *call;

	if (!json_object_object_get_ex(lease, "params", &params) ||
	    !json_object_is_type(params, json_type_object))
		return;
	gpu->leases[vf].params = json_object_get(params);
	call = call_new(gpu->control, gpu);
	if (!call)
		return;
	gpu->leases[vf].restoring = RESTORE_FIRST;
	call->vf = vf;
	call->args = json_object_get(params);
	call->then = on_restored;
	change_begin(call, make_saved);
}

/* Loads one lease. Returns false if its GPU or VF is no longer configured. */
static bool load_one(struct control *control, struct json_object *o)
{
	int64_t vf = number_of(o, "vf"), owed;
	struct json_object *claimed, *names;
	struct gpu *gpu = NULL;
	struct lease *l;
	uint32_t g;

	for (g = 0; g < control->n_gpus; g++)
		if (strcmp(control->gpus[g].config->name, text_of(o, "gpu")) == 0 && vf >= 0 &&
		    vf < control->gpus[g].config->vfs)
			gpu = &control->gpus[g];
	if (!gpu)
		return false;
	if (strcmp(text_of(o, "state"), CLEARING) == 0) {
		/* clearing.c requests the reset within a second; no VM gets the VF before. */
		gpu->clearing.vfs |= VGPU_VF_BIT(vf);
		gpu->clearing.since[vf] = VGPU_NEVER;
		return true;
	}
	l = &gpu->leases[vf];
	load_params(gpu, (uint32_t)vf, o);
	snprintf(l->host, sizeof(l->host), "%s", text_of(o, "host"));
	snprintf(l->uuid, sizeof(l->uuid), "%s", text_of(o, "uuid"));
	snprintf(l->domain, sizeof(l->domain), "%s", text_of(o, "domain"));
	snprintf(l->vf_name, sizeof(l->vf_name), "%s", text_of(o, "vf_name"));
	l->expires = number_of(o, "expires_ns");
	l->loses_by = number_of(o, "loses_by_ns") > 0 ? (vgpu_nsec)number_of(o, "loses_by_ns") : 0;
	l->since = number_of(o, "since_ns") > 0 ? (vgpu_nsec)number_of(o, "since_ns") : 0;
	if (json_object_object_get_ex(o, "claimed", &claimed) &&
	    json_object_is_type(claimed, json_type_object))
		l->claimed = json_object_get(claimed);
	snprintf(l->claimed_policy, sizeof(l->claimed_policy), "%s", text_of(o, "claimed_policy"));
	for (g = 0; g < CLAIM_ON_HANG; g++)
		if (strcmp(claim_on_hang_names[g], text_of(o, "on_hang")) == 0)
			l->on_hang = g;
	l->hung = json_object_get_boolean(json_object_object_get(o, "hung"));
	l->attached = json_object_get_boolean(json_object_object_get(o, "attached"));
	l->state = LEASE_RUNNING;
	for (g = 0; g < LEASE_STATES; g++)
		if (strcmp(text_of(o, "state"), lease_state_names[g]) == 0)
			l->state = (enum lease_state)g;
	if (l->state == LEASE_INCOMING) {
		l->resumes_by = (vgpu_nsec)number_of(o, "resumes_by_ns");
		owed = number_of(o, "owed_ns");
		l->owed = owed > 0 && owed <= (int64_t)TRAVEL_MAX_OWED ? (vgpu_nsec)owed : 0;
		hold_begin(gpu, (uint32_t)vf);
	}
	claimed_look(gpu, (uint32_t)vf);
	for (g = 0; g < CLAIM_BY; g++)
		if (strcmp(claim_by_names[g], text_of(o, "by")) == 0)
			l->by = g;
	l->owner = number_of(o, "owner") > 0 ? (uid_t)number_of(o, "owner") : 0;
	snprintf(l->id, sizeof(l->id), "%s", text_of(o, "id"));
	if (json_object_object_get_ex(o, "engine_names", &names) &&
	    json_object_is_type(names, json_type_object))
		l->engine_names = json_object_get(names);
	l->memory = number_of(o, "memory_bytes") > 0 ? (uint64_t)number_of(o, "memory_bytes") : 0;
	if (l->state == LEASE_HELD) {
		gpu->clearing.vfs |= VGPU_VF_BIT(vf);
		gpu->clearing.since[vf] = VGPU_NEVER;
	}
	vm_door_link(gpu, (uint32_t)vf);
	if (number_of(o, "process") > 0) { /* tenants_look() finds the process, or ends the lease */
		l->by = l->by == CLAIM_BY_VM ? CLAIM_BY_PROGRAM
					     : l->by; /* written by an older vgpud */
		l->process = (uint32_t)number_of(o, "process");
		l->started = (uint64_t)number_of(o, "started");
		l->worker = (uint32_t)number_of(o, "worker");
		l->worker_started = (uint64_t)number_of(o, "worker_started");
		l->pidfd = -1;
	}
	return true;
}

void leases_load(struct control *control)
{
	const char *path = control->config->leases;
	struct json_object *list;
	size_t i;

	if (access(path, F_OK) < 0)
		return;
	list = json_object_from_file(path);
	if (!json_object_is_type(list, json_type_array)) {
		log_line(LOG_ERR,
			 "%s: not a list of leases; vgpud does not know which VM has which VF",
			 path);
		json_object_put(list);
		return;
	}
	for (i = 0; i < json_object_array_length(list); i++) {
		struct json_object *o = json_object_array_get_idx(list, i);

		if (!load_one(control, o))
			log_line(LOG_WARNING,
				 "%s%s VF %d of %s, which is no longer configured; its lease is "
				 "dropped",
				 text_of(o, "domain"),
				 text_of(o, "domain")[0] ? " had" : "a VM that has ended had",
				 (int)number_of(o, "vf"), text_of(o, "gpu"));
	}
	json_object_put(list);
}
