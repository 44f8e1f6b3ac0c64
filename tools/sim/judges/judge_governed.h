/* SPDX-License-Identifier: MIT */
/*
 * Judges a governed GPU, once in each epoch, from the firmware's own counters and from what the
 * governor states. Its arithmetic is floating point and shares nothing with the governor's.
 */
#pragma once

#include "firmware.h"
#include "govern.h"

struct judge_governed {
	const struct scenario *scenario;
	struct govern_result *result;
	vgpu_nsec epoch; /* between two programs there is at least so much */
	/* Since the last change of claims: what each VF was served until then, and by how much it
	 * may have been off. */
	double base[VGPU_GPU_MAX_VFS], brought[VGPU_GPU_MAX_VFS];
	double read[VGPU_GPU_MAX_VFS]; /* each VF's service at the last reading of the counters */
	double weights[VGPU_GPU_MAX_VFS]; /* shares, in any unit; all 0: none are promised */
	vgpu_nsec longest_wait[VGPU_GPU_MAX_VFS]; /* the largest stated bound */
};

/* Sets the shares of the N VFs (NULL: none are promised) from the present epoch on. Comparisons
 * begin anew. */
void judge_governed_change(struct judge_governed *j, uint32_t n, const double *shares);
/* Judges an epoch. Must be called when the counters were read and the governor has decided. */
void judge_governed_epoch(struct judge_governed *j, const struct firmware *f,
			  const struct vgpu_governor *g);
/* Judges a program that was issued SINCE_LAST ns after the previous one; VGPU_NEVER: it is the
 * first. */
void judge_governed_program(struct judge_governed *j, const struct vgpu_program *program,
			    vgpu_nsec since_last);
