/* SPDX-License-Identifier: MIT */
/*
 * The reset of a VF, from when it is due until it has succeeded, for every kind of GPU: one that
 * fails is made again after 1, 2, 4 ... 60 s. Whoever schedules the VF owns it, and gives the VF to
 * no other tenant meanwhile.
 */
#ifndef VGPU_RESET_H
#define VGPU_RESET_H

#include "vgpu/core.h"

#define VGPU_RESET_PAUSE_FIRST (1 * VGPU_SEC)
#define VGPU_RESET_PAUSE_LAST (60 * VGPU_SEC)

/* What a reset says of its VF. */
enum vgpu_blame {
	VGPU_BLAME_NONE = 0,
	VGPU_BLAME_FAULT, /* its work has ended by itself, in a fault: others waited for nothing */
	VGPU_BLAME_HANG,  /* it did not stop, or kept its window: others had to wait */
};

struct vgpu_reset {
	bool in_flight;
	enum vgpu_blame blame;
	enum vgpu_reset_level level;
	uint32_t failures;
	/* Since when it is in flight; when it has taken too long; when to make it again, or
	 * VGPU_NEVER. */
	vgpu_nsec started, deadline, retry_at;
};

/* No reset is due. */
#define VGPU_RESET_NONE ((struct vgpu_reset){.retry_at = VGPU_NEVER})

/* Whether the VF must still be reset. */
static inline bool vgpu_reset_is_due(const struct vgpu_reset *r)
{
	return r->in_flight || r->retry_at != VGPU_NEVER;
}

/* It is begun at NOW, and should have ended at DEADLINE. */
static inline void vgpu_reset_begin(struct vgpu_reset *r, vgpu_nsec now, vgpu_nsec deadline)
{
	r->in_flight = true;
	r->started = now;
	r->deadline = deadline;
	r->retry_at = VGPU_NEVER;
}

/* It has failed at NOW: it will be made again after a pause, which grows. */
static inline void vgpu_reset_failed(struct vgpu_reset *r, vgpu_nsec now)
{
	vgpu_nsec pause = VGPU_RESET_PAUSE_FIRST;
	uint32_t i;

	r->in_flight = false;
	r->failures++;
	for (i = 1; i < r->failures && pause < VGPU_RESET_PAUSE_LAST; i++)
		pause *= 2;
	r->retry_at = now + (pause < VGPU_RESET_PAUSE_LAST ? pause : VGPU_RESET_PAUSE_LAST);
}

#endif
