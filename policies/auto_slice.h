/* SPDX-License-Identifier: MIT */
/*
 * The length of a slice: configured, or computed from the measured world switch W and two goals.
 * Switching should take at most a part O of the time, which needs q >= W * (1 - O) / O; and a
 * rotation of n VFs should take at most R, which needs q <= R / n - W. Where the goals conflict,
 * the rotation is kept as long as slices are worth their switches, and the policy warns the
 * operator.
 */
#pragma once

#include "text.h"
#include "vgpu/policy.h"

static const char *const auto_slice_modes[] = {"fixed", "auto", NULL};

#define AUTO_SLICE_PARAM(help, def)                                                                \
	{                                                                                          \
		"slice_us", "us", help, VGPU_PARAM_INT, 500, 500000, def, NULL                     \
	}
#define AUTO_SLICE_MODE_PARAM                                                                      \
	{                                                                                          \
		"slice", "", "fixed: slice_us; auto: computed from overhead_pct and rotation_ms",  \
			VGPU_PARAM_CHOICE, 0, 1, 0, auto_slice_modes                               \
	}
#define AUTO_SLICE_OVERHEAD_PARAM                                                                  \
	{                                                                                          \
		"overhead_pct", "%",                                                               \
			"slice = auto: largest part of the time that world switches may take",     \
			VGPU_PARAM_INT, 1, 50, 5, NULL                                             \
	}
#define AUTO_SLICE_ROTATION_PARAM                                                                  \
	{                                                                                          \
		"rotation_ms", "ms", "slice = auto: longest time until every VF has had a turn",   \
			VGPU_PARAM_INT, 1, 10000, 33, NULL                                         \
	}

struct auto_slice {
	vgpu_nsec fixed; /* the configured slice, or 0 */
	vgpu_nsec overhead_pct, rotation;
	struct text text;
};

static inline void auto_slice_set(struct auto_slice *a, int64_t slice_us, int64_t mode,
				  int64_t overhead_pct, int64_t rotation_ms)
{
	a->fixed = mode ? 0 : (vgpu_nsec)slice_us * VGPU_USEC;
	a->overhead_pct = (vgpu_nsec)overhead_pct;
	a->rotation = (vgpu_nsec)rotation_ms * VGPU_MSEC;
}

/* auto_slice_least() returns the shortest slice that meets the overhead goal, auto_slice_most() the
 * longest that meets the rotation goal of N VFs; ns. */
static inline vgpu_nsec auto_slice_least(const struct auto_slice *a, const struct vgpu_facts *facts)
{
	vgpu_nsec q = facts->switch_ns * (100 - a->overhead_pct) / a->overhead_pct;

	return q > facts->min_slice_ns ? q : facts->min_slice_ns;
}

static inline vgpu_nsec auto_slice_most(const struct auto_slice *a, const struct vgpu_facts *facts,
					uint32_t n)
{
	vgpu_nsec turn = a->rotation / (n ? n : 1);

	return turn > facts->switch_ns ? turn - facts->switch_ns : 0;
}

/* Returns whether slices that keep the rotation are worth their switches. */
static inline bool auto_slice_feasible(const struct vgpu_facts *facts, vgpu_nsec most)
{
	return most >= facts->min_slice_ns && most >= facts->switch_ns;
}

/* Returns the slice for N VFs, ns. */
static inline vgpu_nsec auto_slice(const struct auto_slice *a, const struct vgpu_facts *facts,
				   uint32_t n)
{
	vgpu_nsec q, most;

	if (a->fixed)
		return a->fixed < facts->min_slice_ns ? facts->min_slice_ns : a->fixed;
	q = auto_slice_least(a, facts);
	most = auto_slice_most(a, facts, n);
	if (most < q && auto_slice_feasible(facts, most))
		q = most;
	/* Steps of 125 us, so that the slice does not follow every measurement. */
	q = (q + 124999) / 125000 * 125000;
	return q < facts->max_slice_ns ? q : facts->max_slice_ns;
}

/* Returns NULL, or a warning, in A's memory, that both goals cannot be met. */
static inline const char *auto_slice_warning(struct auto_slice *a, const struct vgpu_facts *facts,
					     uint32_t n)
{
	vgpu_nsec least = auto_slice_least(a, facts), most = auto_slice_most(a, facts, n);
	vgpu_nsec q = auto_slice(a, facts, n), turn = q + facts->switch_ns;

	if (a->fixed || most >= least)
		return NULL;
	a->text.n = 0;
	text_add(&a->text, "overhead_pct needs slices of at least ");
	text_ms(&a->text, least);
	text_add(&a->text, ", rotation_ms of at most ");
	text_ms(&a->text, most);
	text_add(&a->text, "; with slices of ");
	text_ms(&a->text, q);
	text_add(&a->text, " switching costs ");
	text_hundredths(&a->text, 10000 * facts->switch_ns / turn);
	text_add(&a->text, " % and a rotation takes ");
	text_ms(&a->text, n * turn);
	return a->text.s;
}
