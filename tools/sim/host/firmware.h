/* SPDX-License-Identifier: MIT */
/*
 * A model of a GPU whose firmware schedules, with tenants. VFs have turns in the order of their
 * numbers, each for its quantum. A VF without work is skipped, or its turn passes unused; a VF
 * whose work ends gives the engine up at once. A VF that does not stop keeps the engine until it
 * does, or until its time-out, when it is reset. A programmed quantum acts at the VF's next turn,
 * and is silently clamped to what the GPU can do. Counters may freeze. (Facts and sources: the
 * exec_quantum and preempt_timeout keys in drivers/gpu/drm/xe/abi/guc_klvs_abi.h of Linux.)
 *
 * It shares no code with the governor, nor with the null driver's turns. Time is virtual, from 0.
 */
#pragma once

#include "random.h"
#include "vgpu/driver.h"

struct firmware_vf {
	const struct scenario_vf *tenant;
	vgpu_nsec quantum, timeout;    /* in force from the next turn on */
	vgpu_nsec work;		       /* left to do; VGPU_NEVER: without end */
	vgpu_nsec wakes;	       /* when there is work again; VGPU_NEVER: not by itself */
	vgpu_nsec next_tick;	       /* work=periodic */
	vgpu_nsec active;	       /* on the engine, in all */
	vgpu_nsec waits_since, waited; /* for a turn; the longest wait */
	uint64_t turns, resets;
};

struct firmware {
	uint32_t n;
	struct vgpu_setting quantum, timeout;
	vgpu_nsec switch_ns;
	vgpu_nsec freeze_at; /* counters stand still from then on; VGPU_NEVER: they do not */
	bool keep_turns;
	struct rng rng;
	vgpu_nsec now;
	uint32_t current;	/* the VF that has the turn, or VGPU_NO_VF */
	vgpu_nsec begins, ends; /* bounds of that turn, without the switch to it */
	vgpu_nsec idle;		/* time in which no VF was on the engine */
	vgpu_nsec frozen[VGPU_GPU_MAX_VFS];
	struct firmware_vf vfs[VGPU_GPU_MAX_VFS];
};

/* Initialises a GPU for the tenants of S, which must outlive it. All settings have their smallest
 * values. */
void firmware_init(struct firmware *f, const struct scenario *s);
/* Advances virtual time to UNTIL, which must not be in the past. */
void firmware_advance(struct firmware *f, vgpu_nsec until);
/* Programs P, and writes the settings that are in force then to APPLIED. */
void firmware_program(struct firmware *f, const struct vgpu_program *p,
		      struct vgpu_program *applied);
/* Writes the counters of all VFs, ns on the engine each. */
void firmware_usage(const struct firmware *f, vgpu_nsec *active);
