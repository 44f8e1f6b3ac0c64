/* SPDX-License-Identifier: MIT */
/*
 * The reset of a VF, from when it is due until it has succeeded, for every kind of GPU. A failed
 * reset is repeated after 1, 2, 4 ... 60 s. The scheduler of the VF owns this state, and gives the
 * VF to no other tenant until the reset has succeeded.
 */
#pragma once

#include "vgpu/core.h"

#define VGPU_RESET_PAUSE_FIRST (1 * VGPU_SEC)
#define VGPU_RESET_PAUSE_LAST (60 * VGPU_SEC)

/* The cause of a reset. */
enum vgpu_blame {
	VGPU_BLAME_NONE = 0,
	VGPU_BLAME_FAULT, /* its work ended in a fault, or it kept its window: no VF had to wait */
	VGPU_BLAME_HANG,  /* it did not stop, or kept its window: other VFs had to wait */
};

struct vgpu_reset {
	bool in_flight;
	enum vgpu_blame blame;
	enum vgpu_reset_level level;
	uint32_t failures;
	/* When the reset in flight was begun; when it times out; when to repeat a failed one, or
	 * VGPU_NEVER. */
	vgpu_nsec started, deadline, retry_at;
};

/* No reset is due. */
#define VGPU_RESET_NONE ((struct vgpu_reset){.retry_at = VGPU_NEVER})

/* Returns whether the VF must still be reset. */
static inline bool vgpu_reset_is_due(const struct vgpu_reset *r)
{
	return r->in_flight || r->retry_at != VGPU_NEVER;
}

/* Marks the reset as begun at NOW, with a time-out at DEADLINE. */
static inline void vgpu_reset_begin(struct vgpu_reset *r, vgpu_nsec now, vgpu_nsec deadline)
{
	r->in_flight = true;
	r->started = now;
	r->deadline = deadline;
	r->retry_at = VGPU_NEVER;
}

/* Marks the reset as failed at NOW, and schedules the next attempt after a growing pause. */
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
