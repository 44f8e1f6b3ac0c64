/* SPDX-License-Identifier: MIT */
/* Between the host in virtual time, its device, and its tenants. */
#ifndef SIM_VHOST_PRIVATE_H
#define SIM_VHOST_PRIVATE_H

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

static inline void event_vf(struct vhost *h, enum vgpu_event_type type, uint32_t vf, uint32_t code,
			    int64_t value)
{
	vhost_event(h, &(struct vgpu_event){.type = type, .vf = vf, .code = code, .value = value});
}

/* The device (vhost_device.c): carries out what the core wants. */
void device_act(struct vhost *h, const struct vgpu_action *a);
/* A reset has taken VF's context, and its driver. */
void device_forget(struct vhost *h, uint32_t vf);
/* The reset that is due at VF is over. */
void device_reset_is_done(struct vhost *h, uint32_t vf);
/* Mischief in mid-slice, to the VF that has just begun to run. */
void device_faults(struct vhost *h);

/* The tenants (vhost_tenant.c). What the VF that runs has still to do before it is done with a job;
 * NULL: no end to that. */
vgpu_nsec *tenant_left(const struct vhost *h);
/* The VF that runs has worked until TO. */
void tenant_works(struct vhost *h, vgpu_nsec to);
/* VF's job at hand is done: it may have another, or think. */
void tenant_job_done(struct vhost *h, uint32_t vf);
/* VF's driver gives its exclusive window back. */
void tenant_released(struct vhost *h, uint32_t vf);
/* What VF's tenant does next is due: it starts its driver, works, thinks, and works again. */
void tenant_lives(struct vhost *h, uint32_t vf);

/* The device's memory (vhost_memory.c); where there is none, these do nothing. Begins, or begins
 * again with what the GPU has; VF is configured. */
void memory_begin(struct vhost *h);
void memory_added(struct vhost *h, uint32_t vf);
void memory_end(struct vhost *h);
/* What it does next, and when that is. */
vgpu_nsec memory_next(const struct vhost *h);
void memory_due(struct vhost *h);
/* The core has been stepped; and all that followed from that. */
void memory_core_stepped(struct vhost *h);
void memory_follow(struct vhost *h);
/* The core wants the memory of VF cleared; there is a model of it. */
void memory_scrub(struct vhost *h, uint32_t vf);
/* Whoever has VF writes to all of its memory; VF is sent a command. */
void memory_writes(struct vhost *h, uint32_t vf);
void memory_command(struct vhost *h, uint32_t vf, enum vgpu_command command);

#endif
