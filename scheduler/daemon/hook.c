/* SPDX-License-Identifier: MIT */
#include "hook.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "vfio/pci.h"
#include "vgpu/param.h"
#include "wish.h"

/* A preparation under way: slice by slice, and for each GPU by GPU until one fits. */
struct hook_job {
	struct wish wish;
	uint32_t slice, gpu, vf;
	struct vgpu_error why; /* the last one's refusal */
	vgpu_nsec until;       /* so long a VF is waited for that is being scrubbed */
	bool scrubbing;	       /* one that would fit is */
	bool over;	       /* meanwhile the VM has been told to have ended */
};

static vgpu_nsec now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}

/* The hook gives up after ten seconds. */
#define SCRUB_PATIENCE (8 * VGPU_SEC)
#define SCRUB_LOOKS_MS 20

static const char *text_arg(const struct call *call, const char *name)
{
	struct json_object *value;

	return json_object_object_get_ex(call->args, name, &value) ? json_object_get_string(value)
								   : "";
}

/* The VF's parameters as they are without a VM: the configuration's, or the policy's defaults. */
static void usual_params(const struct gpu *gpu, uint32_t vf, int64_t *out)
{
	if (gpu->policy == gpu->config->ops)
		memcpy(out, gpu->config->vf_params[vf], VGPU_MAX_PARAMS * sizeof(*out));
	else
		vgpu_param_defaults(gpu->policy->vf_params, out);
}

/* The VM has no more to do with it. */
static void end_lease(struct control *control, struct gpu *gpu, uint32_t vf)
{
	int64_t params[VGPU_MAX_PARAMS];
	struct call *call;

	gpu->leases[vf].state = LEASE_NONE;
	usual_params(gpu, vf, params);
	gpu_set_vf(gpu, vf, params);
	/* Reset and scrubbed, even if its user's end has done so already: nobody must find what it
	 * left. */
	call = call_new(control, gpu);
	if (!call)
		return;
	call->request.event = (struct vgpu_event){.type = VGPU_EV_RESET_VF, .vf = vf};
	call_send_off(call);
}

static bool end_leases(struct control *control, const char *uuid)
{
	struct gpu *gpu;
	bool any = false;
	uint32_t vf;

	while (lease_find(control, uuid, NULL, &gpu, &vf)) {
		log_line(LOG_INFO, "%s has given its VF back gpu=%s vf=%u", gpu->leases[vf].domain,
			 gpu->config->name, vf);
		end_lease(control, gpu, vf);
		any = true;
	}
	return any;
}

static void take(struct gpu *gpu, uint32_t vf, const struct wish *wish,
		 const struct wish_slice *slice, enum lease_state state)
{
	struct lease *l = &gpu->leases[vf];

	*l = (struct lease){.state = state, .since = now()};
	snprintf(l->uuid, sizeof(l->uuid), "%s", wish->uuid);
	snprintf(l->domain, sizeof(l->domain), "%s", wish->domain);
	snprintf(l->slice, sizeof(l->slice), "%s", slice->name);
	l->expires = now() + (vgpu_nsec)gpu->control->config->lease_s * VGPU_SEC;
}

/* The number of the VF at a PCI address, or -1. */
static int32_t vf_at(const struct gpu *gpu, const char *address)
{
	char pf[PCI_ADDRESS_SIZE], vf[PCI_ADDRESS_SIZE];
	int32_t i;

	for (i = 0; gpu_pf_address(gpu, pf) && i < gpu->config->vfs; i++)
		if (pci_vf_address(pf, (uint32_t)i, vf) == 0 && strcmp(vf, address) == 0)
			return i;
	return -1;
}

/* Whether a process has the VF: its guest's driver is up, or VFIO has it open. */
static bool is_in_use(const struct gpu *gpu, uint32_t vf)
{
	char pf[PCI_ADDRESS_SIZE], address[PCI_ADDRESS_SIZE], user[64];

	return gpu->in_use >> vf & 1 ||
	       (gpu_pf_address(gpu, pf) && pci_vf_address(pf, vf, address) == 0 &&
		pci_user(address, user, sizeof(user)));
}

/* The device that the domain has for a slice: the one with its alias. */
static const char *hostdev_of(const struct wish *wish, const struct wish_slice *slice)
{
	uint32_t i;

	for (i = 0; slice->alias[0] && i < wish->n_hostdevs; i++)
		if (strcmp(wish->hostdevs[i].alias, slice->alias) == 0)
			return wish->hostdevs[i].address;
	return NULL;
}

static int read_params(const struct gpu *gpu, const struct wish_slice *slice, int64_t *values,
		       struct vgpu_error *err)
{
	uint32_t i;
	int r = 0;

	for (i = 0; i < slice->n_params && r == 0; i++)
		r = vgpu_param_set(gpu->policy->vf_params, slice->params[i].name,
				   slice->params[i].value, values, err);
	return r;
}

/* Whether a GPU may serve a slice, before its VFs are looked at; WHY not is left as it is for one
 * that was not meant. */
static bool may_serve(const struct gpu *gpu, const struct wish *wish,
		      const struct wish_slice *slice, struct vgpu_error *why)
{
	const char *name = gpu->config->name, *hostdev = hostdev_of(wish, slice);
	int64_t values[VGPU_MAX_PARAMS];
	struct vgpu_error err;

	if ((slice->gpu[0] && strcmp(slice->gpu, name) != 0) ||
	    (slice->pool[0] && strcmp(slice->pool, gpu->config->pool) != 0) ||
	    (hostdev && vf_at(gpu, hostdev) < 0))
		return false;
	usual_params(gpu, 0, values);
	if (engine_trouble(gpu->engine))
		vgpu_error_set(why, -ENODEV, "%s is lost: %s", name, engine_trouble(gpu->engine));
	else if (slice->policy[0] && strcmp(slice->policy, gpu->policy->name) != 0)
		vgpu_error_set(why, -EINVAL, "%s has policy %s, not %s (vgpuctl policy set)", name,
			       gpu->policy->name, slice->policy);
	else if (read_params(gpu, slice, values, &err) < 0)
		vgpu_error_set(why, -EINVAL, "%s: policy %s: %s", name, gpu->policy->name,
			       err.text);
	else
		return true;
	return false;
}

/* A VF that is free and large enough; -1 and why. */
static int32_t choose(struct call *call, struct vgpu_error *why)
{
	struct hook_job *job = call->job;
	const struct wish_slice *slice = &job->wish.slices[job->slice];
	const char *hostdev = hostdev_of(&job->wish, slice), *name = call->gpu->config->name;
	int32_t want = hostdev ? vf_at(call->gpu, hostdev) : slice->vf;
	uint64_t largest = 0, size;
	uint32_t i;

	if (want >= (int32_t)call->snapshot.n_vfs) {
		vgpu_error_set(why, -ENOENT, "%s has VFs 0 to %u, no VF %d", name,
			       call->snapshot.n_vfs - 1, want);
		return -1;
	}
	for (i = 0; i < call->snapshot.n_vfs; i++) {
		const struct lease *l = &call->gpu->leases[i];

		if (want >= 0 && i != (uint32_t)want)
			continue;
		size = call->snapshot.found.partition.vfs[i].size;
		if (l->state == LEASE_NONE && size >= slice->memory)
			job->scrubbing |= call->snapshot.vfs[i].state == VGPU_VF_SCRUBBING;
		if (l->state != LEASE_NONE)
			vgpu_error_set(why, -EBUSY, "VF %u of %s belongs to %s", i, name,
				       l->domain);
		else if (call->snapshot.vfs[i].state != VGPU_VF_AVAIL)
			vgpu_error_set(why, -EBUSY, "VF %u of %s is %s", i, name,
				       vgpu_vf_state_names[call->snapshot.vfs[i].state]);
		else if (size >= slice->memory)
			return (int32_t)i;
		else
			largest = size > largest ? size : largest;
	}
	if (largest)
		vgpu_error_set(why, -ENOSPC,
			       "%" PRIu64 " MiB are wished, the largest free VF of %s has %" PRIu64
			       " MiB (vgpuctl vf list)",
			       slice->memory >> 20, name, largest >> 20);
	else if (want < 0)
		vgpu_error_set(why, -EBUSY, "all %u VFs of %s are in use (vgpuctl vm list)",
			       call->snapshot.n_vfs, name);
	return -1;
}

static void next_candidate(struct call *call);

/* None fits: what has been reserved for the VM's other slices is given back. */
static void refuse(struct call *call)
{
	struct hook_job *job = call->job;
	const struct wish_slice *slice = &job->wish.slices[job->slice];
	int64_t params[VGPU_MAX_PARAMS];
	struct vgpu_error err;
	struct gpu *gpu;
	uint32_t vf;

	while (lease_find(call->control, job->wish.uuid, NULL, &gpu, &vf)) {
		gpu->leases[vf].state = LEASE_NONE;
		usual_params(gpu, vf, params);
		gpu_set_vf(gpu, vf, params);
	}
	if (!job->why.text[0])
		vgpu_error_set(&job->why, -ENOENT, "there is no GPU %s%s%s (vgpuctl gpu list)",
			       hostdev_of(&job->wish, slice) ? "with a VF at " : "",
			       hostdev_of(&job->wish, slice) ? hostdev_of(&job->wish, slice)
			       : slice->pool[0]		     ? "in pool "
							     : slice->gpu,
			       slice->pool);
	vgpu_error_set(&err, -EBUSY, "%s/%s: %s", job->wish.domain, slice->name, job->why.text);
	log_line(LOG_NOTICE, "%s%s", err.text, job->wish.required ? "" : "; it may start without");
	leases_save(call->control);
	if (job->wish.required)
		call_fail(call, -EBUSY, err.text);
	else
		call_answer(call, NULL);
}

static void on_params(struct call *call)
{
	struct hook_job *job = call->job;

	if (call->request.result == 0) {
		memcpy(call->gpu->vf_params[job->vf], call->params, sizeof(call->params));
		log_line(LOG_INFO, "reserved for %s/%s gpu=%s vf=%u", job->wish.domain,
			 job->wish.slices[job->slice].name, call->gpu->config->name, job->vf);
		job->slice++;
		job->gpu = 0;
		job->why.text[0] = '\0';
	} else {
		call->gpu->leases[job->vf].state = LEASE_NONE;
		vgpu_error_set(&job->why, -EBUSY, "%s: policy %s: %s", call->gpu->config->name,
			       call->gpu->policy->name,
			       call->request.why[0] ? call->request.why
						    : strerror(-call->request.result));
		job->gpu++;
	}
	next_candidate(call);
}

static void on_look(struct call *call)
{
	struct hook_job *job = call->job;
	const struct wish_slice *slice = &job->wish.slices[job->slice];
	struct vgpu_error err;
	int32_t vf = -1;

	if (call->request.result == 0)
		vf = choose(call, &job->why);
	if (vf < 0) {
		job->gpu++;
		next_candidate(call);
		return;
	}
	/* From here on nobody else gets it. */
	job->vf = (uint32_t)vf;
	take(call->gpu, job->vf, &job->wish, slice, LEASE_RESERVED);
	usual_params(call->gpu, job->vf, call->params);
	read_params(call->gpu, slice, call->params, &err);
	call->request.ask = ENGINE_EVENT;
	call->request.event =
		(struct vgpu_event){.type = VGPU_EV_SET_VF, .vf = job->vf, .params = call->params};
	call->then = on_params;
	if (call_send(call, &err) < 0) {
		call->request.result = -EAGAIN;
		on_params(call);
	}
}

/* Once more, from the first GPU on. */
static void look_again(evutil_socket_t fd, short what, void *data)
{
	struct call *call = data;

	(void)fd;
	(void)what;
	call->job->gpu = 0;
	call->job->scrubbing = false;
	next_candidate(call);
}

static void next_candidate(struct call *call)
{
	struct control *control = call->control;
	struct hook_job *job = call->job;
	const struct wish_slice *slice = &job->wish.slices[job->slice];
	const struct timeval later = {0, SCRUB_LOOKS_MS * 1000};

	/* Who has given up waiting does not start the VM. */
	if (job->over || !call->client) {
		vgpu_error_set(&job->why, -ECANCELED, "its start was given up");
		job->slice -= job->slice == job->wish.n_slices;
		refuse(call);
		return;
	}
	if (job->slice == job->wish.n_slices) {
		leases_save(control);
		call_answer(call, NULL);
		return;
	}
	for (; job->gpu < control->n_gpus; job->gpu++) {
		call->gpu = &control->gpus[job->gpu];
		if (!may_serve(call->gpu, &job->wish, slice, &job->why))
			continue;
		call->request = (struct engine_request){.ask = ENGINE_SNAPSHOT,
							.snapshot = &call->snapshot};
		call->then = on_look;
		if (call_send(call, &job->why) == 0)
			return;
	}
	if (!job->scrubbing || now() > job->until ||
	    event_base_once(control->base, -1, EV_TIMEOUT, look_again, call, &later) < 0)
		refuse(call);
}

/* A changed wish, once: the same refusal is not told every time. */
static void complain(struct gpu *gpu, uint32_t vf, const char *why)
{
	struct lease *l = &gpu->leases[vf];

	if (strcmp(l->said, why) != 0)
		log_line(LOG_WARNING,
			 "%s/%s: its changed wish is refused: %s; it keeps what it has gpu=%s "
			 "vf=%u",
			 l->domain, l->slice, why, gpu->config->name, vf);
	snprintf(l->said, sizeof(l->said), "%s", why);
}

static void on_applied(struct call *call)
{
	uint32_t vf = call->request.event.vf;

	if (call->request.result == 0) {
		memcpy(call->gpu->vf_params[vf], call->params, sizeof(call->params));
		call->gpu->leases[vf].said[0] = '\0';
		log_line(LOG_INFO, "%s/%s: its wish has changed gpu=%s vf=%u",
			 call->gpu->leases[vf].domain, call->gpu->leases[vf].slice,
			 call->gpu->config->name, vf);
		leases_save(call->control);
	} else {
		complain(call->gpu, vf,
			 call->request.why[0] ? call->request.why
					      : strerror(-call->request.result));
	}
	call_drop(call);
}

/* The parameters of a VM that runs, as it wishes them now. */
static void apply(struct control *control, struct gpu *gpu, uint32_t vf,
		  const struct wish_slice *slice)
{
	int64_t params[VGPU_MAX_PARAMS];
	struct vgpu_error err;
	struct call *call;

	usual_params(gpu, vf, params);
	if (read_params(gpu, slice, params, &err) < 0) {
		complain(gpu, vf, err.text);
		return;
	}
	call = memcmp(params, gpu->vf_params[vf], sizeof(params)) != 0 ? call_new(control, gpu)
								       : NULL;
	if (!call)
		return;
	memcpy(call->params, params, sizeof(call->params));
	call->request.event =
		(struct vgpu_event){.type = VGPU_EV_SET_VF, .vf = vf, .params = call->params};
	call->then = on_applied;
	call_send_off(call);
}

/* The VF that a slice names, by its device or by number; NULL: none that we have. */
static struct gpu *named_vf(struct control *control, const struct wish *wish,
			    const struct wish_slice *slice, uint32_t *vf)
{
	const char *hostdev = hostdev_of(wish, slice);
	uint32_t g;
	int32_t at;

	for (g = 0; g < control->n_gpus; g++) {
		struct gpu *gpu = &control->gpus[g];

		at = hostdev					  ? vf_at(gpu, hostdev)
		     : strcmp(gpu->config->name, slice->gpu) == 0 ? slice->vf
								  : -1;
		*vf = (uint32_t)at;
		if (at >= 0 && at < gpu->config->vfs)
			return gpu;
	}
	return NULL;
}

/* A VM that runs already: it keeps what it has. Nothing is refused here. */
static void adopt(struct control *control, const struct wish *wish)
{
	struct gpu *gpu;
	struct lease *l;
	uint32_t i, vf;

	for (i = 0; i < wish->n_slices; i++) {
		const struct wish_slice *slice = &wish->slices[i];

		l = lease_find(control, wish->uuid, slice->name, &gpu, &vf);
		if (l && l->state == LEASE_RESERVED) {
			l->state = LEASE_RUNNING;
			l->since = now();
		}
		if (!l) {
			gpu = named_vf(control, wish, slice, &vf);
			if (!gpu || gpu->leases[vf].state != LEASE_NONE) {
				log_line(LOG_WARNING,
					 "%s/%s runs, and has no VF that vgpud knows of: not "
					 "reserved",
					 wish->domain, slice->name);
				continue;
			}
			take(gpu, vf, wish, slice, LEASE_RUNNING);
			log_line(LOG_INFO, "adopted for %s/%s gpu=%s vf=%u", wish->domain,
				 slice->name, gpu->config->name, vf);
		}
		apply(control, gpu, vf, slice);
	}
	leases_save(control);
}

static bool has_all(struct control *control, const struct wish *wish)
{
	struct gpu *gpu;
	uint32_t i, vf;

	for (i = 0; i < wish->n_slices; i++)
		if (!lease_find(control, wish->uuid, wish->slices[i].name, &gpu, &vf))
			return false;
	return true;
}

/* What an operation does with the VM's leases. */
enum doing { PREPARE, KEEP, ADOPT, END, REFUSE };
static const struct {
	const char *name;
	enum doing doing;
} operations[] = {
	{"prepare", PREPARE}, {"start", KEEP},	    {"started", ADOPT},	 {"stopped", END},
	{"release", END},     {"reconnect", ADOPT}, {"migrate", REFUSE}, /* restore, attach, and
									    what there will be:
									    nothing */
};

int hook_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	const char *operation = text_arg(call, "operation"), *xml = text_arg(call, "xml");
	const char *reason = text_arg(call, "reason");
	struct hook_job *job = calloc(1, sizeof(*job));
	struct call *other;
	size_t i, n = sizeof(operations) / sizeof(operations[0]);
	int r;

	if (!job)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	call->job = job;
	r = wish_parse(&job->wish, xml, strlen(xml), err);
	if (r < 0)
		return vgpu_error_prefix(err, r, "<metadata> of the domain");
	for (i = 0; i < n && strcmp(operations[i].name, operation) != 0; i++)
		;
	if (i == n || job->wish.n_slices == 0) {
		call_answer(call, NULL);
		return 0;
	}
	if (!job->wish.uuid[0])
		return vgpu_error_set(err, -EINVAL, "the domain has no UUID");
	switch (operations[i].doing) {
	case KEEP: /* since prepare, vgpud may have been started again and have lost them */
		if (has_all(control, &job->wish))
			break;
		__attribute__((fallthrough));
	case PREPARE: /* for the last start's, whose end nobody has told */
		end_leases(control, job->wish.uuid);
		job->until = now() + SCRUB_PATIENCE;
		next_candidate(call);
		return 0;
	case ADOPT:
		adopt(control, &job->wish);
		break;
	case END:
		for (other = control->calls; other; other = other->next)
			if (other->job && strcmp(other->job->wish.uuid, job->wish.uuid) == 0)
				other->job->over = true;
		if (strlen(reason) > 1) /* "-": libvirt before 10.5, or not the last operation */
			log_line(LOG_INFO, "%s has ended: %s", job->wish.domain, reason);
		if (end_leases(control, job->wish.uuid))
			leases_save(control);
		break;
	case REFUSE:
		return vgpu_error_set(err, -ENOTSUP,
				      "%s: the state of a VF cannot be moved to another host; "
				      "detach it first",
				      job->wish.domain);
	}
	call_answer(call, NULL);
	return 0;
}

/* Ends the leases that are OVER, by a rule that may change them, and tells WHY. */
static void end_those(struct control *control,
		      bool (*over)(struct gpu *gpu, uint32_t vf, void *data), void *data,
		      const char *why)
{
	bool any = false;
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			struct gpu *gpu = &control->gpus[g];

			if (gpu->leases[vf].state == LEASE_NONE || !over(gpu, vf, data))
				continue;
			log_line(LOG_NOTICE, "%s %s; its VF is free again gpu=%s vf=%u",
				 gpu->leases[vf].domain, why, gpu->config->name, vf);
			end_lease(control, gpu, vf);
			any = true;
		}
	if (any)
		leases_save(control);
}

/* What libvirt had running, and when it was asked. */
struct picture {
	struct json_object *domains;
	vgpu_nsec as_of;
};

/* It did not run, and had not just been started. */
static bool has_gone(struct gpu *gpu, uint32_t vf, void *data)
{
	const struct lease *l = &gpu->leases[vf];
	const struct picture *p = data;

	return l->state == LEASE_RUNNING && l->since <= p->as_of &&
	       !json_object_object_get_ex(p->domains, l->uuid, NULL);
}

int vm_sync_begin(struct control *control, struct call *call, struct vgpu_error *err)
{
	struct json_object *domains, *as_of;
	struct vgpu_error why;
	static struct wish wish; /* the control thread's */

	(void)err;
	json_object_object_get_ex(call->args, "domains", &domains);
	json_object_object_get_ex(call->args, "as_of_ns", &as_of);
	json_object_object_foreach(domains, uuid, xml)
	{
		const char *text = json_object_get_string(xml);

		/* "": it runs, and wishes nothing, or no longer; what it has is its until its end.
		 */
		if (!text || !text[0])
			continue;
		if (wish_parse(&wish, text, strlen(text), &why) < 0)
			log_line(LOG_WARNING, "domain %s: %s", uuid, why.text);
		else
			adopt(control, &wish);
	}
	end_those(control, has_gone, &(struct picture){domains, json_object_get_int64(as_of)},
		  "runs no more");
	call_answer(call, NULL);
	return 0;
}

static bool has_expired(struct gpu *gpu, uint32_t vf, void *data)
{
	const vgpu_nsec *t = data;
	struct lease *l = &gpu->leases[vf];

	if (l->state != LEASE_RESERVED || *t < l->expires)
		return false;
	if (!is_in_use(gpu, vf))
		return true;
	/* It has started, and nobody has told. */
	l->state = LEASE_RUNNING;
	l->since = *t;
	leases_save(gpu->control);
	return false;
}

void hook_expire(struct control *control)
{
	vgpu_nsec t = now();

	end_those(control, has_expired, &t, "was reserved a VF and has not started");
}
