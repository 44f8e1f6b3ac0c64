/* SPDX-License-Identifier: MIT */
/*
 * Decides which VFs have their memory on the GPU, when all VFs together have more memory than it.
 * There are two scales of time. In slices of milliseconds, the policy shares the engine between the
 * VFs that are on the GPU. In epochs of seconds, a VF that has work keeps its memory there. A VF
 * that has work and is swapped out replaces one that has no work; if there is none, it replaces one
 * whose epoch is over and that has been served more for its share. So shares hold over epochs,
 * whatever the policy does within them. The shape is nvshare's quantum with start-time fair
 * queueing on top.
 *
 * Swapping takes time. An epoch is at least four times as long as a swap out and in, so that
 * swapping takes at most a fifth of the time. A VF that runs out of work stays resident for as long
 * as its swap would take, which costs at most twice the optimum (the ski rental argument).
 *
 * Pure: time is an argument, no device, no allocation. Any thread, one at a time.
 */
#pragma once

#include "vgpu/types.h"

/* The present state of a VF. */
struct vgpu_residency_vf {
	bool here;	   /* its memory is on the GPU */
	bool wants;	   /* it has work, or waits for an exclusive window */
	bool pinned;	   /* its memory must always be on the GPU */
	bool fixed;	   /* it cannot be swapped out: pinned, in a window, or being cleared */
	bool empty;	   /* it has no guest, and no data to copy */
	vgpu_nsec run_ns;  /* its run time on the engine so far */
	uint64_t share[2]; /* its share of the engine: numerator and denominator */
};

struct vgpu_residency {
	uint32_t n_vfs;
	vgpu_nsec epoch;
	/* measured length of a swap out and in, set by the caller; 0: not measured yet */
	vgpu_nsec cost;
	struct {
		struct vgpu_residency_vf is;
		vgpu_nsec served; /* service in proportion to its share: run time / share */
		vgpu_nsec came;	  /* when its memory was swapped in */
		vgpu_nsec idle;	  /* when it ran out of work */
		vgpu_nsec waits;  /* when it began to wait, swapped out with work; VGPU_NEVER: it
				     does not wait */
	} vfs[VGPU_GPU_MAX_VFS];
	vgpu_nsec wait_max; /* the longest time that a VF has waited, swapped out with work */
};

/* Initialises R, for N_VFS VFs and epochs of at least EPOCH. */
void vgpu_residency_init(struct vgpu_residency *r, uint32_t n_vfs, vgpu_nsec epoch);

/* Passes the state of VF at NOW to R. Must be called for each VF before next(). */
void vgpu_residency_observe(struct vgpu_residency *r, uint32_t vf,
			    const struct vgpu_residency_vf *is, vgpu_nsec now);

/* Returns the VF to swap in next: pinned ones first, then the least served for its share;
 * VGPU_NO_VF if no VF waits to be swapped in. */
uint32_t vgpu_residency_next(const struct vgpu_residency *r);

/* Writes the eviction candidates to OUT, the VFs that may be swapped out for VF at NOW, in the
 * order of eviction, and returns how many there are. First those without work, the longest idle
 * first; then those whose epoch is over and that were served more than VF. */
uint32_t vgpu_residency_candidates(const struct vgpu_residency *r, uint32_t vf, vgpu_nsec now,
				   uint32_t out[VGPU_GPU_MAX_VFS]);

/* Returns when the eviction candidates may change by time alone; VGPU_NEVER: never. */
vgpu_nsec vgpu_residency_deadline(const struct vgpu_residency *r, vgpu_nsec now);
/* Returns the present length of an epoch. */
vgpu_nsec vgpu_residency_epoch(const struct vgpu_residency *r);
