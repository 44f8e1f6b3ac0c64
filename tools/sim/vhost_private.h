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

#endif
