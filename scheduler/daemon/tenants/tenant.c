/* SPDX-License-Identifier: MIT */
#include "tenant.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "control/caller.h"
#include "control/log.h"
#include "engine/engine.h"
#include "explained.h"
#include "passage.h"
#include "vms/clearing.h"
#include "vms/lease.h"
#include "vms/reserve.h"
#include "vms/seat.h"
#include "vms/vm.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* How long processes may go on whose VF is taken back. */
#define LOSS (5 * VGPU_SEC)

/* The directory of the leases' own directories: that of the tenants' socket. */
static void parent_of(const struct control *control, char *out, size_t size)
{
	const char *path = control->config->tenant_socket, *slash = strrchr(path, '/');

	snprintf(out, size, "%.*s", slash ? (int)(slash - path) : 0, path);
}

/* Opens the lease's socket, if its VF has one to connect to. Returns 0, or -errno with the reason
 * in ERR. */
static int open_passage(struct gpu *gpu, uint32_t vf, struct vgpu_error *err)
{
	struct lease *l = &gpu->leases[vf];
	char socket[sizeof(((struct claim_hostdev *)0)->address)], parent[VGPU_SOCKET_PATH];

	vm_vf_name(gpu, vf, socket, sizeof(socket));
	if (socket[0] != '/')
		return 0;
	parent_of(gpu->control, parent, sizeof(parent));
	return passage_open(&l->passage, gpu->control->base, &gpu->control->share, parent, l->uuid,
			    l->owner, socket, err);
}

static void close_passage(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];
	char parent[VGPU_SOCKET_PATH];

	parent_of(gpu->control, parent, sizeof(parent));
	if (l->passage)
		passage_close(l->passage);
	else
		passage_remove(parent, l->uuid); /* of an earlier vgpud */
	l->passage = NULL;
}

/* The process has lost the VF. */
static void take_away(struct gpu *gpu, uint32_t vf)
{
	close_passage(gpu, vf);
	seat_take_away(gpu, vf);
}

void tenant_end(struct gpu *gpu, uint32_t vf)
{
	take_away(gpu, vf);
	gpu->leases[vf].memory = 0;
	vm_end_lease(gpu, vf);
}

void tenant_take_back(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	if (l->worker && l->state == LEASE_RUNNING) {
		if (!l->loses_by)
			l->loses_by = vgpu_now() + LOSS;
		seat_give(gpu, vf);
	} else {
		tenant_end(gpu, vf);
	}
}

/* The lease's process has ended. */
static void ended(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];
	int64_t hold = gpu->control->config->hold_s;
	bool holds = l->by == CLAIM_BY_CONTAINER && hold > 0 && !l->loses_by;

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

struct lease *tenant_take(struct call *call, struct gpu **gpu, uint32_t *vf, struct vgpu_error *err)
{
	struct reservation *job = reservation_of(call);
	struct lease *l = lease_find(call->control, &job->claim, NULL, gpu, vf);
	uint64_t has;
	bool gated;

	vgpu_error_set(err, -ESRCH, "the process has ended");
	if (l && (caller_has_ended(job->pidfd) || open_passage(*gpu, *vf, err) < 0)) {
		tenant_end(*gpu, *vf);
		l = NULL;
	}
	if (!l)
		return NULL;
	gated = config_is_gated((*gpu)->config);
	has = vm_memory_of(*gpu, *vf, &call->snapshot);
	l->process = job->process;
	l->started = job->started;
	l->worker = gated ? job->worker : 0;
	l->worker_started = job->worker_started;
	l->pidfd = vgpu_take(&job->pidfd);
	/* The gate of a gated GPU limits a program to its claim; other GPUs give the whole VF. */
	if (!gated || !l->memory)
		l->memory = has > l->memory ? has : l->memory;
	if (gated)
		seat_give(*gpu, *vf);
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

/* For a lease of an earlier vgpud: looks for its process, and opens its socket again. */
static void adopt(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];
	struct vgpu_error err;

	l->pidfd = caller_reopen(l->process, l->started);
	if (l->pidfd >= 0 && open_passage(gpu, vf, &err) < 0)
		log_about(about_vf(gpu, vf, LOG_PLAIN), LOG_ERR,
			  "%s cannot connect to its VF any more: %s", l->domain, err.text);
}

static bool lives(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	if (l->pidfd < 0)
		adopt(gpu, vf);
	if (caller_has_ended(l->pidfd))
		return false;
	if (config_is_gated(gpu->config) && l->seat == SEAT_NONE && !engine_trouble(gpu->engine))
		seat_give(gpu, vf);
	return true;
}

/* A container has not restarted while its VF was held. */
static void held_out(struct gpu *gpu, uint32_t vf)
{
	struct lease *l = &gpu->leases[vf];

	if (l->attached)
		explained_note(gpu->control, l->owner, l->id, l->domain,
			       "it did not start again within hold_s, and the VF that was attached "
			       "to it was given back: attach one again");
	vm_end_lease(gpu, vf);
}

/* Returns whether nobody computes any more for a lease that is being taken back, or has had the
 * time to end. */
static bool has_lost(const struct lease *l, vgpu_nsec now)
{
	return l->loses_by && (l->seat == SEAT_GIVEN || now >= l->loses_by);
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

			if (l->by == CLAIM_BY_VM && config_is_gated(gpu->config))
				seat_look_at_vm(gpu, vf);
			if (l->by == CLAIM_BY_VM)
				continue;
			if (l->state == LEASE_RUNNING && l->process && !lives(gpu, vf))
				ended(gpu, vf);
			else if (has_lost(l, now))
				tenant_end(gpu, vf);
			else if (l->state == LEASE_HELD && now >= l->expires)
				held_out(gpu, vf);
			else
				continue;
			any = true;
		}
	if (any)
		leases_save(control);
}

void tenants_leave(struct control *control)
{
	uint32_t g, vf;

	for (g = 0; g < control->n_gpus; g++)
		for (vf = 0; vf < VGPU_GPU_MAX_VFS; vf++) {
			passage_leave(control->gpus[g].leases[vf].passage);
			control->gpus[g].leases[vf].passage = NULL;
		}
}
