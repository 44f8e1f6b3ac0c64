/* SPDX-License-Identifier: MIT */
/*
 * Tests `deadline` or `qos` with random sets of budgets: how many are admitted, how many of those
 * miss deadlines, and how many of the refused ones would have been kept. Each set is also scaled to
 * the boundary of admission, for few of those that are drawn lie there.
 */
#pragma once

#include "prove.h"
#include "random.h"

struct admission_options {
	const struct vgpu_policy_ops *policy;
	uint64_t sets, seed;
	vgpu_nsec switch_ns, min_slice, late;
	uint32_t background; /* number of VFs without a budget that always have work */
	int64_t cap_pct;     /* the policy's parameter */
	bool vary;	     /* world switches vary, and the policy knows the longest */
	bool reclaim;	     /* `deadline`: reclaim=grub */
	/* The policy's parameter `cover`, and once in each set what it covers happens: a VF hangs
	 * (grace), or its driver takes the engine for as long as it may (windows). NULL: neither.
	 */
	const char *cover;
	/* The policy's parameter `admission`; NULL: full, and refused sets are run all the same. */
	const char *mode;
	bool compares;		  /* with what is kept beyond admission */
	const char *save;	  /* the file for the first admitted set that misses, or NULL */
	struct scenario *missing; /* a copy of it, for the caller to free; or NULL */
};

struct admission_study {
	uint64_t sets, admitted, kept_but_refused; /* as drawn */
	uint64_t scaled;       /* sets that were scaled to the boundary of admission */
	uint64_t runs, missed; /* runs of admitted sets, as drawn and scaled; runs with a miss */
	uint64_t compared; /* scaled sets that were compared with the largest scale that is kept */
	double reached;	   /* the sum of: the admitted scale, of the largest that is kept */
	uint64_t deadlines, decisions;
	vgpu_nsec worst_miss;
};

/* Draws options for `prove` into OUT: all but POLICY are drawn, and nothing is compared. */
void admission_kind(struct rng *r, const struct vgpu_policy_ops *policy,
		    struct admission_options *out);

/* Runs the study and writes the result to OUT. PROGRESS may be NULL. Returns 0, or -EIO if the set
 * that misses could not be written. */
int admission_study(const struct admission_options *o, prove_progress *progress,
		    struct admission_study *out);
