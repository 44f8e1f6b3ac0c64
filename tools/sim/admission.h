/* SPDX-License-Identifier: MIT */
/*
 * Sets of budgets, drawn at random, against `deadline` or `qos`: how many are admitted, how many of
 * those miss, and how many of those that were refused would have been kept.
 */
#ifndef SIM_ADMISSION_H
#define SIM_ADMISSION_H

#include "prove.h"

struct admission_options {
	const struct vgpu_policy_ops *policy;
	uint64_t sets, seed;
	vgpu_nsec switch_ns, min_slice, late;
	uint32_t background; /* VFs without a budget that always have work */
	bool vary;	     /* world switches vary, and what is known of them is the most */
	/* The policy's parameter `admission`; NULL: full, and refused sets are tried all the same.
	 */
	const char *mode;
	const char *save; /* where the first admitted set that misses is written to, or NULL */
};

struct admission_study {
	uint64_t sets, admitted, missed, kept_but_refused;
	uint64_t deadlines;
	vgpu_nsec worst_miss;
};

/* 0, or -EIO if the set that misses could not be written. */
int admission_study(const struct admission_options *o, prove_progress *progress,
		    struct admission_study *out);

#endif
