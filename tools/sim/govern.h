/* SPDX-License-Identifier: MIT */
/*
 * Governed GPUs in virtual time: runs the governor and its policy against the model of firmware,
 * and judges the result. The judge uses the model's own counters and what the governor states; it
 * shares no arithmetic with the governor.
 */
#pragma once

#include "scenario.h"
#include "vgpu/governor.h"

/* How a run is governed. */
struct govern_line {
	char label[128];
	bool fixed;	 /* the nominal plan for ever: no loop */
	vgpu_nsec epoch; /* 0: the scenario's */
};

struct govern_result {
	/* The worst error of the share of a VF that always has work, over windows of 1 and 10 s, as
	 * a part of 1; below 0: no such window. The first 10 s are not in these: the governor
	 * learns, and pays what it owes for that. WITH_START includes them. */
	double worst_1s, worst_10s, with_start;
	double writes_per_s, plans_per_s; /* settings written; programs; after the first second */
	double lag;			  /* the largest |lag| / stated bound */
	double wait;			  /* the longest wait / stated bound */
	uint64_t epochs, discarded, resets;
	bool still;	     /* the governor ended on the static plan, for want of counters */
	char violation[320]; /* "": all invariants held */
	double shares[VGPU_GPU_MAX_VFS]; /* fractions of the time */
	struct vgpu_governed_vf_view vfs[VGPU_GPU_MAX_VFS];
};

/* Runs S, a scenario of a governed GPU, and writes the result to OUT. Returns 0; or with the
 * reason: -EOPNOTSUPP: the governor refuses the policy or its parameters; -EINVAL: the scenario is
 * invalid. */
int govern_run(const struct scenario *s, const struct govern_line *line, struct govern_result *out,
	       struct vgpu_error *err);

/* Draws scenario number N of SEED for the policy NAME. The caller frees it by scenario_free. */
void govern_random(struct scenario *s, const char *name, uint64_t seed, uint64_t n);
