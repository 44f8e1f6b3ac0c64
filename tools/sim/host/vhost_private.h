/* SPDX-License-Identifier: MIT */
/* The interface between the host in virtual time, its device, and its tenants. */
#pragma once

#include "vhost.h"

static inline vgpu_nsec draw(struct vhost *h, struct vhost_range r)
{
	return r.max > r.min ? r.min + vhost_random(h) % (r.max - r.min + 1) : r.min;
}

static inline bool chance(struct vhost *h, unsigned ppm)
{
	return ppm && vhost_random(h) % 1000000 < ppm;
}

static inline vgpu_nsec sooner(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

/* Steps the core by EVENT, whose fields must all be set, and carries out the core's actions.
 * Returns the core's result. */
int vhost_step(struct vhost *h, const struct vgpu_event *event);

static inline void event_vf(struct vhost *h, enum vgpu_event_type type, uint32_t vf, uint32_t code,
			    int64_t value)
{
	vhost_step(h, &(struct vgpu_event){
			      .now = h->now, .type = type, .vf = vf, .code = code, .value = value});
}

/* The device (vhost_device.c): carries out an action of the core. */
void device_act(struct vhost *h, const struct vgpu_action *a);
/* Completes the command in flight, and begins the one that follows it. Returns the answer to the
 * completed one. */
struct vgpu_event device_done(struct vhost *h);
/* Destroys VF's context, and ends its driver, as a reset does. */
void device_forget(struct vhost *h, uint32_t vf);
/* Ends the reset of VF. */
void device_reset_is_done(struct vhost *h, uint32_t vf);
/* Draws faults in the middle of the slice for VF, which has just begun to run. */
void device_faults(struct vhost *h, uint32_t vf);

/* Returns the VF's present job, or NULL. */
static inline struct vhost_job *vhost_job(const struct vhost_vf *vf)
{
	return vf->jobs_head != vf->jobs_tail ? &vf->jobs[vf->jobs_head & (vf->jobs_size - 1)]
					      : NULL;
}

/* Returns the engine time that the running VF's job still needs; NULL: it never ends. */
static inline vgpu_nsec *tenant_left(const struct vhost *h)
{
	struct vhost_job *job;

	if (h->running == VGPU_NO_VF || !h->vfs[h->running].busy)
		return NULL;
	job = vhost_job(&h->vfs[h->running]);
	return job ? &job->left : NULL;
}

/* Lets the running VF work until TO. LEFT: tenant_left() */
static inline void tenant_works(struct vhost *h, vgpu_nsec *left, vgpu_nsec to)
{
	vgpu_nsec done;

	if (!left)
		return;
	done = sooner(*left, to - h->now);
	*left -= done;
	h->vfs[h->running].queued -= done;
}

/* The tenants (vhost_tenant.c). */
/* Ends VF's present job: VF may have another, or think. */
void tenant_job_done(struct vhost *h, uint32_t vf);
/* Ends VF's exclusive window on its driver's side. */
void tenant_released(struct vhost *h, uint32_t vf);
/* Does what VF's tenant does next: it starts its driver, works, thinks, and works again. */
void tenant_lives(struct vhost *h, uint32_t vf);

/* The device's memory (vhost_memory.c); without it these do nothing. memory_begin begins, or begins
 * again with what the GPU has; memory_added: a VF was configured; memory_writes: VF's tenant writes
 * to all of its memory; memory_end frees it. */
void memory_begin(struct vhost *h);
void memory_added(struct vhost *h, uint32_t vf);
void memory_writes(struct vhost *h, uint32_t vf);
void memory_end(struct vhost *h);
/* memory_next returns when the memory does something next, memory_due does it. From here on, all is
 * called for each event, and requires h->gpu_memory. */
vgpu_nsec memory_next(const struct vhost *h);
void memory_due(struct vhost *h);
/* memory_core_stepped must be called when the core was stepped, memory_follow when the actions of
 * that step were carried out. */
void memory_core_stepped(struct vhost *h);
void memory_follow(struct vhost *h);
/* memory_scrub: the core wants the memory of VF cleared. memory_command: VF is sent a command. */
void memory_scrub(struct vhost *h, uint32_t vf);
void memory_command(struct vhost *h, uint32_t vf, enum vgpu_command command);
