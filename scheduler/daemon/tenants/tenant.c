/* SPDX-License-Identifier: MIT */
#include "tenant.h"

#include <stdio.h>

#include "config/config.h"
#include "control/caller.h"
#include "control/log.h"
#include "engine/engine.h"
#include "explained.h"
#include "vms/clearing.h"
#include "vms/lease.h"
#include "vms/reserve.h"
#include "vms/vm.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

static void on_given(struct call *call)
{
	struct lease *l = &call->gpu->leases[call->vf];

	/* A GPU that is lost is asked again. */
	if (l->process && l->process == call->request.event.code)
		l->seat = call->request.result == 0 ? SEAT_GIVEN : SEAT_NONE;
	call_drop(call);
}

/* Tells the engine who has the VF. */
static void give(struct gpu *gpu, uint32_t vf)
{
	const struct lease *l = &gpu->leases[vf];
	struct call *call = call_new(gpu->control, gpu);

	if (!call)
		return;
	gpu->leases[vf].seat = SEAT_ASKED;
	call->vf = vf;
	call->then = on_given;
	call->request.ask = ENGINE_SEAT;
	call->request.event.vf = vf;
	call->request.event.code = l->process;
	call->request.event.value = (int64_t)l->started;
	call->request.memory.size = l->memory;
	call_queue(call);
}

/* The process has the VF no more. On a gated GPU nobody has it before it is reset. */
static void take_away(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	if (l->process)
		vgpu_close(&l->pidfd);
	l->process = 0;
	l->started = 0;
	if (config_is_for_programs(gpu->config))
		give(gpu, vf);
}

void tenant_end(struct gpu *gpu, uint32_t vf)
{
	take_away(gpu, vf);
	gpu->leases[vf].memory = 0;
	vm_end_lease(gpu, vf);
}

/* The lease's process has ended. */
static void ended(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];
	int64_t hold = gpu->control->config->hold_s;
	bool holds = l->by == CLAIM_BY_CONTAINER && hold > 0;

	if (explained_may_log(gpu->control, l->owner))
		log_about(about_vf(gpu, vf, LOG_VM_RELEASED), LOG_INFO, "%s %s has ended%s",
			  claim_by_names[l->by], l->domain,
			  holds ? "; its VF is held for its restart" : "");
	if (!holds) {
		tenant_end(gpu, vf);
		return;
	}
	take_away(gpu, vf);
	l->state = LEASE_HELD;
	l->since = vgpu_now();
	l->expires = l->since + (vgpu_nsec)hold * VGPU_SEC;
	clearing_begin(gpu, vf);
}

struct lease *tenant_take(struct call *call, struct gpu **gpu, uint32_t *vf)
{
	struct reservation *job = call->reservation;
	struct lease *l = lease_find(call->control, &job->claim, NULL, gpu, vf);

	if (l && caller_has_ended(job->pidfd)) {
		tenant_end(*gpu, *vf);
		l = NULL;
	}
	if (!l)
		return NULL;
	l->process = job->process;
	l->started = job->started;
	l->pidfd = vgpu_take(&job->pidfd);
	l->memory = vm_memory_of(*gpu, *vf, &call->snapshot);
	l->memory = l->memory > job->claim.vfs[0].memory ? l->memory : job->claim.vfs[0].memory;
	if (config_is_for_programs((*gpu)->config)) {
		l->memory = job->claim.vfs[0].memory;
		give(*gpu, *vf);
	}
	return l;
}

void tenant_hand_over(struct gpu *gpu, uint32_t vf, const struct claim *claim, uint32_t process,
		      uint64_t started, int pidfd)
{
	struct lease *l = &gpu->leases[vf];

	vgpu_close(&l->pidfd);
	l->by = claim->by;
	snprintf(l->id, sizeof(l->id), "%s", claim->id);
	snprintf(l->domain, sizeof(l->domain), "%s", claim->domain);
	l->process = process;
	l->started = started;
	l->pidfd = pidfd;
}

/* Whether the lease's process lives. One of an earlier vgpud is looked for; then it has the VF
 * again. */
static bool lives(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	if (l->pidfd < 0)
		l->pidfd = caller_reopen(l->process, l->started);
	if (caller_has_ended(l->pidfd))
		return false;
	if (config_is_for_programs(gpu->config) && l->seat == SEAT_NONE &&
	    !engine_trouble(gpu->engine))
		give(gpu, vf);
	return true;
}

void tenants_look(struct control *control)
{
	vgpu_nsec now = vgpu_now();
	bool any = false;
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			struct gpu *gpu = &control->gpus[g];
			struct lease *l = &gpu->leases[vf];

			if (l->state == LEASE_RUNNING && l->process && !lives(gpu, vf))
				ended(gpu, vf);
			else if (l->state == LEASE_HELD && now >= l->expires)
				vm_end_lease(gpu, vf);
			else
				continue;
			any = true;
		}
	if (any)
		leases_save(control);
}
