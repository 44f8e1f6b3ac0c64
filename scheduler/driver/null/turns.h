/* SPDX-License-Identifier: MIT */
/*
 * A model of how a GPU's firmware shares its engine: VFs have turns in a fixed order, each for its
 * quantum; a VF without work is skipped, or its turn passes unused; a VF that does not stop at the
 * end of its quantum keeps the engine until it stops, or until its time-out resets it. A program
 * applies to a VF from its next turn. (Intel's GuC: the exec_quantum and preempt_timeout keys of
 * its KLV interface, drivers/gpu/drm/xe/abi/guc_klvs_abi.h in Linux.)
 *
 * Pure: time is an argument, and never goes back.
 */
#pragma once

#include "vgpu/driver.h"

struct turns {
	uint32_t n_vfs;
	vgpu_nsec now;
	uint32_t current;		 /* the VF that has the turn, or VGPU_NO_VF */
	vgpu_nsec quantum_end, turn_end; /* of that turn; apart by how late it stops */
	bool keep_turns;
	struct {
		bool busy;
		vgpu_nsec late; /* after each end of its quantum */
		vgpu_nsec quantum, timeout;
		vgpu_nsec active; /* on the engine, in all */
		uint64_t resets;  /* for a time-out */
	} vfs[VGPU_GPU_MAX_VFS];
};

/* Initialises N VFs without work at NOW. */
void turns_init(struct turns *t, uint32_t n, vgpu_nsec now);
/* Advances to NOW. */
void turns_advance(struct turns *t, vgpu_nsec now);
void turns_program(struct turns *t, const struct vgpu_program *program, vgpu_nsec now);
/* A VF gets work that does not end, or has none any more. */
void turns_busy(struct turns *t, uint32_t vf, bool busy, vgpu_nsec now);
