/* SPDX-License-Identifier: MIT */
/*
 * Which VFs have their memory on the GPU, where all of them together have more than it has. There
 * are two scales of time: slices of milliseconds, which are the policy's, among those that are
 * there; and epochs of seconds, in which a VF that has work keeps its place. Who has work and is
 * not there comes in for who has none; else, when an epoch is over, for who has had more of the
 * engine than he has for his share. So shares are kept over epochs, whatever the policy does within
 * them. The shape is nvshare's quantum with start-time fair queueing on top.
 *
 * Swapping costs. An epoch is at least four times what a swap out and in takes, so that no more
 * than a fifth of the time goes into it; and who pauses keeps his place for as long as his swap
 * would take, which is never worse than twice the best (the ski rental argument).
 *
 * Pure: time is an argument, no device, no allocation. Any thread, one at a time.
 */
#ifndef VGPU_RESIDENCY_H
#define VGPU_RESIDENCY_H

#include "vgpu/types.h"

/* A VF, as it is now. */
struct vgpu_residency_vf {
	bool here;	   /* its memory is on the GPU */
	bool wants;	   /* it has work, or a window to get */
	bool pinned;	   /* it is to be here always */
	bool fixed;	   /* it cannot leave: pinned, in a window, being cleared */
	bool empty;	   /* it has no guest, and nothing to be copied */
	vgpu_nsec run_ns;  /* that it has had of the engine in all */
	uint64_t share[2]; /* its share of the engine: numerator and denominator */
};

struct vgpu_residency {
	uint32_t n_vfs;
	vgpu_nsec epoch;
	vgpu_nsec cost; /* of a swap out and in, as measured; 0: not yet. The caller's to set */
	struct {
		struct vgpu_residency_vf is;
		vgpu_nsec served; /* what it has had, for its share: run time by share */
		vgpu_nsec came;
		vgpu_nsec idle;	 /* without work since then */
		vgpu_nsec waits; /* out, with work, since then; VGPU_NEVER: it does not */
	} vfs[VGPU_GPU_MAX_VFS];
	vgpu_nsec wait_max; /* the longest that one has waited */
};

void vgpu_residency_init(struct vgpu_residency *r, uint32_t n_vfs, vgpu_nsec epoch);

/* A VF is so at NOW. To be told of each before next is asked. */
void vgpu_residency_observe(struct vgpu_residency *r, uint32_t vf,
			    const struct vgpu_residency_vf *is, vgpu_nsec now);

/* Who is to come in: the one that has had least for its share, pinned ones first; VGPU_NO_VF:
 * nobody is out and wants in. */
uint32_t vgpu_residency_next(const struct vgpu_residency *r);

/* Who may leave for VF at NOW, the first to go first: in OUT, as many as are returned. Those that
 * have no work, the longest idle first; then those whose epoch is over and that have had more. */
uint32_t vgpu_residency_candidates(const struct vgpu_residency *r, uint32_t vf, vgpu_nsec now,
				   uint32_t out[VGPU_GPU_MAX_VFS]);

/* When eviction candidates may change by time alone; VGPU_NEVER: not. The epoch as it is now. */
vgpu_nsec vgpu_residency_deadline(const struct vgpu_residency *r, vgpu_nsec now);
vgpu_nsec vgpu_residency_epoch(const struct vgpu_residency *r);

#endif
