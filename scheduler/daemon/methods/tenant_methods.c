/* SPDX-License-Identifier: MIT */
/*
 * The connection identifies the caller (control/caller.h); vgpud trusts no other statement about
 * the caller. It opens each process that a caller names, and checks that it belongs to the caller.
 */
#include "tenant_methods.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control/change.h"
#include "control/client.h"
#include "engine/engine.h"
#include "promised.h"
#include "tenants/asked.h"
#include "tenants/explained.h"
#include "tenants/limits.h"
#include "tenants/passage.h"
#include "tenants/tenant.h"
#include "vms/claimed.h"
#include "vms/lease.h"
#include "vms/vm.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

#define MILLION 1000000u
/* Longer than a reservation waits for a VF that is being cleared (vms/reserve.c). */
#define HOLD_FOR_START (10 * VGPU_SEC)

/* Returns whether the caller may see and change a lease. */
static bool is_his(const struct caller *caller, const struct lease *l)
{
	return caller->is_root || (l->by != CLAIM_BY_VM && l->owner == caller->owner);
}

/* Finds a lease of a program or a container by its name. */
static struct lease *find_named(struct control *control, const struct caller *caller,
				const char *name, struct gpu **gpu, uint32_t *vf)
{
	struct lease *l;

	for (*gpu = control->gpus; *gpu < control->gpus + control->n_gpus; (*gpu)++)
		for (*vf = 0; *vf < VGPU_GPU_MAX_VFS; (*vf)++) {
			l = &(*gpu)->leases[*vf];
			if (lease_is_given(l) && l->by != CLAIM_BY_VM && is_his(caller, l) &&
			    strcmp(l->uuid, name) == 0)
				return l;
		}
	return NULL;
}

/* Finds the lease of the same container, or of the same process. */
static struct lease *find_same(struct control *control, const struct reservation *job,
			       struct gpu **gpu, uint32_t *vf)
{
	const struct claim *claim = &job->claim;
	struct lease *l;

	for (*gpu = control->gpus; *gpu < control->gpus + control->n_gpus; (*gpu)++)
		for (*vf = 0; *vf < VGPU_GPU_MAX_VFS; (*vf)++) {
			l = &(*gpu)->leases[*vf];
			if (l->state == LEASE_NONE || l->by == CLAIM_BY_VM)
				continue;
			if (l->process == job->process && l->started == job->started)
				return l;
			if (claim->by == CLAIM_BY_CONTAINER && l->by == CLAIM_BY_CONTAINER &&
			    l->owner == claim->owner && strcmp(l->id, claim->id) == 0)
				return l;
		}
	return NULL;
}

/* Returns whether another start of the same container or process is in progress. */
static bool is_begun(const struct control *control, const struct reservation *job)
{
	const struct reservation *r;
	const struct call *call;

	for (call = control->calls; call; call = call->next) {
		r = reservation_of(call);
		if (r && r != job && !r->over && r->claim.by == job->claim.by &&
		    ((r->process && r->process == job->process) ||
		     (r->claim.by == CLAIM_BY_CONTAINER && r->claim.owner == job->claim.owner &&
		      strcmp(r->claim.id, job->claim.id) == 0)))
			return true;
	}
	return false;
}

/* The reservation, or a step before it, was refused. */
static void on_refused(struct call *call, const char *why)
{
	const struct claim *claim = &reservation_of(call)->claim;

	explained_note(call->control, claim->owner, claim->id, claim->domain, why);
}

static json *answer_of(const struct gpu *gpu, uint32_t vf)
{
	const struct lease *l = &gpu->leases[vf];
	const char *dir = l->passage ? passage_dir(l->passage) : "";
	char socket[VGPU_SOCKET_PATH];
	json *o = json_object_new_object();

	put_text(o, "lease", l->uuid);
	put_text(o, "kind", claim_by_names[l->by]);
	put_text(o, "gpu", gpu->config->name);
	put_int(o, "vf", vf);
	put_text(o, "door", config_is_gated(gpu->config) ? gpu->config->door : "");
	snprintf(socket, sizeof(socket), "%s%s", dir, *dir ? "/" PASSAGE_SOCKET : "");
	put_text(o, "dir", dir);
	put_text(o, "socket", socket);
	return o;
}

/* The call's reservation has its VF: gives it to the process, and answers. */
static void began(struct call *call)
{
	struct reservation *job = reservation_of(call);
	struct control *control = call->control;
	const struct caller *caller = &call->client->who;
	struct vgpu_error err;
	struct gpu *gpu;
	uint32_t vf;

	if (!tenant_take(call, &gpu, &vf, &err)) {
		leases_save(control);
		on_refused(call, err.text);
		call_fail(call, -EIO, err.text);
		return;
	}
	if (limits_check_given(limits_of(control, caller, call->client->fd, job->claim.owner), gpu,
			       vf, &err) < 0) {
		tenant_end(gpu, vf);
		leases_save(control);
		on_refused(call, err.text);
		call_fail(call, -EDQUOT, err.text);
		return;
	}
	gpu->leases[vf].engine_names = asked_engine_names(asked_names(call));
	gpu->leases[vf].attached = asked_true(call, "attach") || asked_true(call, "later");
	leases_save(control);
	call_answer(call, answer_of(gpu, vf));
}

/* The process that is to get the VF: the caller, or the first one of the container. OUT is
 * unchanged if there is none. */
static int open_process(const struct call *call, struct caller *out, struct vgpu_error *err)
{
	json *container = json_object_object_get(call->args, "container"), *pid;
	const struct caller *caller = &call->client->who;

	if (!container) {
		VGPU_AUTO_CLOSE int fd = fcntl(caller->pidfd, F_DUPFD_CLOEXEC, 0);

		if (caller_has_ended(fd))
			return vgpu_error_set(err, -ESRCH, "the calling process has ended");
		*out = *caller;
		out->pidfd = vgpu_take(&fd);
		return 0;
	}
	if (!json_object_object_get_ex(container, "pid", &pid) ||
	    !json_object_is_type(pid, json_type_int) || json_object_get_int64(pid) < 1 ||
	    json_object_get_int64(pid) > INT32_MAX)
		return vgpu_error_set(err, -EINVAL,
				      "container: pid: want the number of its first process");
	return caller_open(caller, (uint32_t)json_object_get_int64(pid), out, err);
}

/* Who is to compute for the container, outside of it: a process of the caller's. */
static int open_worker(const struct call *call, struct reservation *job, struct vgpu_error *err)
{
	json *pid =
		json_object_object_get(json_object_object_get(call->args, "container"), "worker");
	struct caller worker = {.pidfd = -1};
	int64_t number = json_object_get_int64(pid);
	int r;

	if (!pid)
		return 0;
	if (number < 1 || number > INT32_MAX)
		return vgpu_error_set(err, -EINVAL, "container: worker: want a process");
	r = caller_open_any(&call->client->who, (uint32_t)number, &worker, err);
	vgpu_close(&worker.pidfd);
	job->worker = worker.pid;
	job->worker_started = worker.started;
	job->claim.by_venus = true;
	return r;
}

/* Returns whether any GPU has VFs for programs and containers. */
static bool there_is_one(const struct control *control)
{
	uint32_t g;

	for (g = 0; g < control->n_gpus; g++)
		if (config_takes_tenants(control->gpus[g].config))
			return true;
	return false;
}

/* Handles a container that runs under a lease of its owner: 'vgpuctl run -- podman run'. */
static int bring(struct call *call, const char *name, struct vgpu_error *err)
{
	struct reservation *job = reservation_of(call);
	struct control *control = call->control;
	struct gpu *gpu;
	uint32_t vf;
	struct lease *l = find_named(control, &call->client->who, name, &gpu, &vf);

	if (!l || l->state != LEASE_RUNNING || !l->process || l->by != CLAIM_BY_PROGRAM ||
	    l->owner != job->claim.owner || config_is_gated(gpu->config))
		return vgpu_error_set(err, -ENOENT,
				      "lease %.40s: this user has no such lease of a program that "
				      "runs: start a new container by 'vgpuctl run'",
				      name);
	tenant_hand_over(gpu, vf, &job->claim, job->process, job->started, vgpu_take(&job->pidfd));
	l->engine_names = asked_engine_names(asked_names(call));
	leases_save(control);
	call_answer(call, answer_of(gpu, vf));
	return 0;
}

/* Sets OUT to the lease's present claim. */
static void claim_of(const struct lease *l, struct claim_vf *out)
{
	struct vgpu_error err;

	*out = (struct claim_vf){.vf = -1, .hostdev = -1, .memory = l->memory};
	snprintf(out->name, sizeof(out->name), "%s", l->vf_name);
	snprintf(out->policy, sizeof(out->policy), "%s", l->claimed_policy);
	if (!l->claimed)
		return;
	json_object_object_foreach(l->claimed, name, value)
		asked_param(out, name, json_object_get_string(value), true, &err);
}

/* Returns whether a container has no name: its id is used. */
static bool is_called_by_id(const char *name, const char *id)
{
	return strlen(name) <= 12 && strncmp(name, id, 12) == 0;
}

/* A restarted container keeps its name, unless the call has another one. */
static void keep_names(struct call *call, struct lease *l)
{
	struct claim *claim = &reservation_of(call)->claim;

	if (!asked_names(call) && l->engine_names)
		json_object_object_add(json_object_object_get(call->args, "container"), "names",
				       json_object_get(l->engine_names));
	if (is_called_by_id(claim->domain, claim->id))
		snprintf(claim->domain, sizeof(claim->domain), "%s", l->domain);
}

static int begin(struct call *call, struct vgpu_error *err)
{
	struct reservation *job = reservation_of(call);
	struct control *control = call->control;
	const struct caller *caller = &call->client->who;
	struct claim *claim = &job->claim;
	const char *brought = asked_lease(call);
	bool later = asked_true(call, "later");
	struct gpu *gpu;
	uint32_t vf;
	struct lease *l = find_same(control, job, &gpu, &vf);
	int r;

	if (l && l->state == LEASE_RUNNING)
		return vgpu_error_set(err, -EEXIST, "%s has VF %u of %s already", l->domain, vf,
				      gpu->config->name);
	if (later && (!l || l->state != LEASE_HELD)) {
		call_answer(call, NULL);
		return 0;
	}
	if (is_begun(control, job))
		return vgpu_error_set(err, -EEXIST, "another start of %s is under way",
				      claim->domain);
	if (brought && !later && (!l || strcmp(l->uuid, brought) != 0))
		return bring(call, brought, err);
	if (brought || later) { /* a restarted container gets its former lease */
		claim_of(l, &claim->vfs[0]);
		snprintf(claim->uuid, sizeof(claim->uuid), "%s", l->uuid);
	}
	if (!there_is_one(control))
		return vgpu_error_set(err, -ENOENT,
				      "no GPU has VFs for a %s: GPUs of softgpu have, and those "
				      "with \"device = vulkan:NAME\"",
				      claim_by_names[claim->by]);
	r = limits_check(control, limits_of(control, caller, call->client->fd, claim->owner), job,
			 err);
	if (r < 0)
		return r;
	if (l && claim->vfs[0].gpu[0] && strcmp(claim->vfs[0].gpu, gpu->config->name) != 0) {
		vm_end_lease(gpu, vf); /* the container no longer requests the GPU that it had */
	} else if (l) {
		keep_names(call, l);
		if (l->expires < vgpu_now() + HOLD_FOR_START)
			l->expires = vgpu_now() + HOLD_FOR_START;
		snprintf(claim->vfs[0].gpu, sizeof(claim->vfs[0].gpu), "%s", gpu->config->name);
		claim->vfs[0].vf = (int32_t)vf;
	}
	reserve_begin(call);
	return 0;
}

int tenant_start_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	struct reservation *job = reserve_new(call);
	struct caller process = {.pid = call->client->who.pid,
				 .pidfd = -1,
				 .owner = call->client->who.owner};
	struct vgpu_error why;
	int r, read;

	if (!job)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	tenants_look(
		control); /* frees what has just ended, or finds the VF held for this container */
	r = open_process(call, &process, err);
	job->process = process.pid;
	job->started = process.started;
	job->pidfd = process.pidfd;
	job->mode = RESERVE_START;
	job->done = began;
	job->refused = on_refused;
	job->quiet = !explained_may_log(control, process.owner);
	/* Each refusal is stored with its caller and request. */
	read = asked_read(call, process.pid, process.owner, &job->claim, r == 0 ? err : &why);
	r = r == 0 ? read : r;
	if (r == 0)
		r = open_worker(call, job, err);
	if (r == 0)
		r = begin(call, err);
	if (r == 0)
		return 0;
	on_refused(call, err->text);
	if (!job->quiet)
		log_about(about_vm(job->claim.domain, LOG_VM_REFUSED), LOG_NOTICE,
			  "%s of user %u: %s", job->claim.domain, (unsigned)process.owner,
			  err->text);
	return r;
}

/* For a container this is only a hint to check at once: no lease ends because a caller says so. A
 * lease named by its owner ends. */
int tenant_stop_begin(struct control *control, struct call *call, struct vgpu_error *)
{
	const char *name = call_text(call, "lease");
	struct gpu *gpu;
	uint32_t vf;

	if (name && find_named(control, &call->client->who, name, &gpu, &vf)) {
		tenant_take_back(gpu, vf);
		leases_save(control);
	}
	tenants_look(control);
	call_answer(call, NULL);
	return 0;
}

/* Returns whether the call's lease is still the one that the VF has. */
static bool is_still(const struct call *call)
{
	const struct lease *l = &call->gpu->leases[call->vf];

	return l->state == LEASE_RUNNING && strcmp(l->uuid, call_text(call, "lease")) == 0;
}

/* Sets OUT to the lease's new claim. */
static int read_set(const struct call *call, struct claim_vf *out, struct vgpu_error *err)
{
	bool root = call->client->who.is_root;
	json *params;
	int r = 0;

	claim_of(&call->gpu->leases[call->vf], out);
	json_object_object_get_ex(call->args, "params", &params);
	json_object_object_foreach(params, name, value) if (r == 0) r =
		asked_param(out, name, json_object_get_string(value) ?: "", root, err);
	return r;
}

/* Checked only here, after all earlier changes, when the owner's total is known. */
static int make_set(struct call *call, const struct policy_values *now, struct vgpu_error *err)
{
	const struct client *client = call->client;
	struct lease *l = &call->gpu->leases[call->vf];
	int r;

	if (!is_still(call))
		return vgpu_error_set(err, -ENOENT, "the lease has ended");
	if (!client)
		return vgpu_error_set(err, -ECANCELED, "the client has disconnected");
	r = read_set(call, call->job, err);
	if (r == 0 && !client->who.is_root)
		r = limits_check_change(limits_of(call->control, &client->who, client->fd,
						  l->owner),
					call->gpu, call->vf, call->job, err);
	if (r == 0)
		r = vm_read_claimed(call->gpu, call->vf, now->policy, call->job, call->params, err);
	if (r < 0)
		return r;
	change_set_vf(call, now);
	return 0;
}

static void on_set(struct call *call)
{
	bool done = call->request.result >= 0;

	if (is_still(call)) {
		call->gpu->leases[call->vf].set_ppm = 0;
		if (done)
			claimed_note(call->gpu, call->vf, call->job);
		leases_save(call->control);
	}
	if (done)
		call_answer(call, params_json(call->request.event.policy->vf_params, call->params));
	else
		call_fail(call, call->request.result, call->request.why);
}

int tenant_set_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	const struct lease *l = find_named(control, &call->client->who, call_text(call, "lease"),
					   &call->gpu, &call->vf);

	if (!l || l->state != LEASE_RUNNING)
		return vgpu_error_set(err, -ENOENT,
				      "lease %.40s: you have no running lease of this name; "
				      "'vgpuctl tenant list' shows yours",
				      call_text(call, "lease"));
	call->job = calloc(1, sizeof(struct claim_vf));
	call->free_job = free;
	if (!call->job)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	call->then = on_set;
	return change_request(call, make_set, err);
}

/* The engine's name for a container comes from the container's owner, as all names do. */
int tenant_name_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	json *names = json_object_object_get(call->args, "names");
	const char *name = json_object_get_string(json_object_object_get(names, "name"));
	struct gpu *gpu;
	uint32_t vf;
	struct lease *l =
		find_named(control, &call->client->who, call_text(call, "lease"), &gpu, &vf);

	if (!l || l->by != CLAIM_BY_CONTAINER)
		return vgpu_error_set(err, -ENOENT,
				      "lease %.40s: you have no container with it; 'vgpuctl tenant "
				      "list' shows your leases",
				      call_text(call, "lease"));
	if (name && *name && is_called_by_id(l->domain, l->id))
		asked_name(l->domain, 101, name);
	json_object_put(l->engine_names);
	l->engine_names = asked_engine_names(names);
	leases_save(control);
	call_answer(call, NULL);
	return 0;
}

/* A hook's findings, which vgpud cannot verify. Shown to the caller's own user only. */
int tenant_note_begin(struct control *control, struct call *call, struct vgpu_error *)
{
	json *container = json_object_object_get(call->args, "container");
	const char *id = json_object_get_string(json_object_object_get(container, "id"));
	const char *name =
		json_object_get_string(json_object_object_get(asked_names(call), "name"));
	char plain_id[CLAIM_ID_SIZE], plain_name[101];

	asked_name(plain_id, sizeof(plain_id), id ? id : "");
	asked_name(plain_name, sizeof(plain_name), name ? name : "");
	explained_note(control, call->client->who.owner, plain_id, plain_name,
		       call_text(call, "why"));
	call_answer(call, NULL);
	return 0;
}

/* The VF's part of the engine's time since its owner began to run; and its promised part. */
static void put_shares(json *o, const struct engine_snapshot *s, uint32_t vf, const struct lease *l)
{
	const struct vgpu_vf_view *view = &s->vfs[vf];
	vgpu_nsec ran = view->ledger.run_ns, wall = s->core.engine.wall_ns;
	vgpu_nsec span = s->now > l->since ? s->now - l->since : 0;

	span = span < wall ? span : wall;
	put_int(o, "promised_ppm", promised_ppm(s->core.policy, view));
	json_object_object_add(o, "received_ppm",
			       l->state != LEASE_RUNNING || l->run_base == VGPU_NEVER ||
					       ran < l->run_base || span == 0
				       ? NULL
				       : json_object_new_int64(
						 (int64_t)((unsigned __int128)(ran - l->run_base) *
							   MILLION / span)));
	put_int(o, "memory_bytes", s->caps.memory ? s->found.partition.vfs[vf].size : l->memory);
}

static const char *engine_name(const struct lease *l, const char *what)
{
	const char *text = json_object_get_string(json_object_object_get(l->engine_names, what));

	return text ? text : "";
}

static void list_one(const struct call *call, uint32_t vf, bool known)
{
	const struct lease *l = &call->gpu->leases[vf];
	json *o = json_object_new_object();

	put_text(o, "lease", l->uuid);
	put_text(o, "kind", claim_by_names[l->by]);
	put_text(o, "name", l->domain);
	put_text(o, "id", l->by == CLAIM_BY_CONTAINER ? l->id : "");
	put_text(o, "image", engine_name(l, "image"));
	put_text(o, "pod", engine_name(l, "pod"));
	put_text(o, "namespace", engine_name(l, "namespace"));
	if (l->by != CLAIM_BY_VM) {
		put_int(o, "owner", l->owner);
		put_int(o, "process", l->process);
		put_int(o, "worker", l->worker);
		put_int(o, "worker_started", (int64_t)l->worker_started);
	}
	put_text(o, "gpu", call->gpu->config->name);
	put_int(o, "vf", vf);
	put_text(o, "state", lease_state_names[l->state]);
	put_int(o, "since_ns", l->since);
	if (known)
		put_shares(o, &call->snapshot, vf, l);
	json_object_array_add(json_object_object_get(call->args, "tenants"), o);
}

static void list_gpu(struct call *call);

static void on_snapshot(struct call *call)
{
	bool known = call->request.result == 0;
	const struct lease *l;
	uint32_t vf;

	for (vf = 0; call->client && vf < VGPU_GPU_MAX_VFS; vf++) {
		l = &call->gpu->leases[vf];
		if (lease_is_given(l) && is_his(&call->client->who, l))
			list_one(call, vf, known && vf < call->snapshot.n_vfs);
	}
	call->gpu++;
	list_gpu(call);
}

/* Continues with call->gpu, or answers. */
static void list_gpu(struct call *call)
{
	struct control *control = call->control;
	json *answer;

	if (call->gpu < control->gpus + control->n_gpus && call->client) {
		call->request = (struct engine_request){.ask = ENGINE_SNAPSHOT,
							.snapshot = &call->snapshot};
		call->then = on_snapshot;
		call_queue(call);
		return;
	}
	answer = json_object_new_object();
	put_int(answer, "now_ns", vgpu_now());
	json_object_object_add(answer, "tenants",
			       json_object_get(json_object_object_get(call->args, "tenants")));
	call_answer(call, answer);
}

int tenant_list_begin(struct control *control, struct call *call, struct vgpu_error *)
{
	tenants_look(control);
	json_object_put(call->args);
	call->args = json_object_new_object();
	json_object_object_add(call->args, "tenants", json_object_new_array());
	call->gpu = control->gpus;
	list_gpu(call);
	return 0;
}

int tenant_explain_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	const struct caller *caller = &call->client->who;
	const char *id = call_text(call, "id");
	json *o = explained_find(control, caller->owner, caller->is_root, id);
	const struct lease *l;
	char text[200];
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			l = &control->gpus[g].leases[vf];
			if (!lease_is_given(l) || l->by == CLAIM_BY_VM || !is_his(caller, l) ||
			    (strcmp(l->domain, id) != 0 && strcmp(l->uuid, id) != 0 &&
			     (strlen(id) < 6 || strncmp(l->id, id, strlen(id)) != 0)))
				continue;
			json_object_put(o);
			o = json_object_new_object();
			snprintf(text, sizeof(text), "has VF %u of %s (%s)%s", vf,
				 control->gpus[g].config->name, lease_state_names[l->state],
				 l->attached ? "; it was attached, and is attached again if the "
					       "container is restarted within hold_s"
					     : "");
			put_text(o, "id", l->id);
			put_text(o, "name", l->domain);
			put_int(o, "owner", l->owner);
			put_text(o, "why", text);
			put_int(o, "at_ns", l->since);
		}
	if (!o)
		return vgpu_error_set(
			err, -ENOENT,
			"nothing of %.40s: it has no VF, and no start of it was refused "
			"lately",
			id);
	call_answer(call, o);
	return 0;
}
