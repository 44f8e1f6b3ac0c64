/* SPDX-License-Identifier: MIT */
/*
 * How long VFs waited for their turns and had no work, from the steps of a core. Time of exclusive
 * windows and resets, which VFs pay for, is no part of a wait.
 */
#pragma once

#include "vgpu/core.h"

struct waiting {
	bool works, waits; /* as of the last step: it has work; and is not on the engine */
	vgpu_nsec since;   /* when the wait began, */
	vgpu_nsec taken;   /* and what windows and resets had taken by then */
	vgpu_nsec longest; /* wait; one that goes on counts */
	vgpu_nsec asleep;  /* how long it had no work */
	uint64_t naps;	   /* how often it ran out of work */
};

struct waits {
	vgpu_nsec from; /* waits that ended before this are not counted */
	vgpu_nsec last; /* step; 0: none yet */
	struct waiting vfs[VGPU_GPU_MAX_VFS];
};

/* Updates W after a step of the core, which has N VFs, at NOW of its wall_ns. Not thread-safe. */
void waits_step(struct waits *w, const struct vgpu_core *core, uint32_t n, vgpu_nsec now);
