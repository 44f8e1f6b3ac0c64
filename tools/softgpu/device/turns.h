/* SPDX-License-Identifier: MIT */
/*
 * The round robin of softgpu's own scheduler: which VF has the turn, and for how long. VFs have
 * turns in a fixed order, each for its quantum. A VF that does not want one is skipped, or, if
 * turns are kept, its turn passes unused. A new plan counts from a VF's next turn on. Counts the
 * time that each VF has spent on the engine.
 *
 * Pure: time is an argument, and never goes back. Not thread-safe.
 */
#pragma once

#include "softgpu.h"

#define TURNS_NOBODY (-1)

/* The range of a setting; a value outside of it is set to the nearest inside. */
struct turns_range {
	vgpu_nsec min, max, step;
};
extern const struct turns_range turns_quanta, turns_timeouts;

struct turns_plan {
	bool keep; /* turns of VFs that do not want them pass unused */
	struct {
		vgpu_nsec quantum, timeout; /* how late after its quantum a VF may stop */
	} vfs[SOFTGPU_MAX_VFS];
};

struct turns {
	uint32_t n;
	struct turns_plan plan; /* in force */
	int current, last;	/* the VF that has the turn, and the one before; or TURNS_NOBODY */
	vgpu_nsec ends;		/* the current turn */
	int counted;		/* the VF whose counter runs, since SINCE; or TURNS_NOBODY */
	vgpu_nsec since;
	vgpu_nsec active[SOFTGPU_MAX_VFS];
	uint64_t turns[SOFTGPU_MAX_VFS]; /* number of turns that each VF has begun */
};

/* Initialises N VFs, with the plan of a GPU that has not been programmed. */
void turns_init(struct turns *t, uint32_t n, vgpu_nsec now);
/* Puts PLAN into force, each value clamped. */
void turns_program(struct turns *t, const struct turns_plan *plan);
/* Begins the next turn, of a VF in the bitmap WANTS unless turns are kept. Returns the VF;
 * TURNS_NOBODY if no VF wants one. */
int turns_begin(struct turns *t, uint32_t wants, vgpu_nsec now);
/* Returns whether the current turn must end at NOW: its quantum is over, or its VF does not want
 * the rest. A turn goes on as long as no other VF wants one: turns_begin() then renews it. */
bool turns_is_over(const struct turns *t, uint32_t wants, vgpu_nsec now);
/* Returns whether another VF wants a turn, or must have it because turns are kept. */
bool turns_others(const struct turns *t, uint32_t wants);
/* Starts the counter of VF at NOW, and stops any other; TURNS_NOBODY: none runs. */
void turns_count(struct turns *t, int vf, vgpu_nsec now);
/* Returns the time, ns, that VF has spent on the engine by NOW. */
vgpu_nsec turns_active(const struct turns *t, uint32_t vf, vgpu_nsec now);
