/* SPDX-License-Identifier: MIT */
/*
 * Finds out whether a VF wakes at a regular interval, as a VF that renders frames does. Only wakes
 * count, not run times: frames run longest of all the work that people wait for. A VF that has
 * woken six times at one interval of 4 to 60 ms, within 2 %, is regular. Each wake off the interval
 * undoes what one wake on it has added, so in overload no VF stays regular for long.
 */
#pragma once

#include "vgpu/types.h"

#define CADENCE_SHORTEST (4 * VGPU_MSEC)
#define CADENCE_LONGEST (60 * VGPU_MSEC)
#define CADENCE_TOLERANCE 50 /* a fiftieth of the interval */
#define CADENCE_KNOWN 4	     /* number of intervals, as long as the first, that make a VF regular */
#define CADENCE_MOST 20

struct cadence {
	vgpu_nsec woke;	    /* when it woke last */
	vgpu_nsec interval; /* time between its wakes, ns; 0: not known yet */
	uint32_t kept;	    /* wakes on the interval, less those off it */
};

static inline bool cadence_is_kept(const struct cadence *c)
{
	return c->kept >= CADENCE_KNOWN;
}

/* Returns whether A and B differ by no more than the tolerance. */
static inline bool cadence_is_near(const struct cadence *c, vgpu_nsec a, vgpu_nsec b)
{
	return (a > b ? a - b : b - a) <= c->interval / CADENCE_TOLERANCE;
}

/* Counts a wake of the VF at NOW. Most wakes need no division. */
static inline void cadence_wake(struct cadence *c, vgpu_nsec now)
{
	vgpu_nsec gap = now - c->woke;
	uint64_t ticks;

	c->woke = now;
	if (c->interval && cadence_is_near(c, gap, c->interval)) {
		c->kept += c->kept < CADENCE_MOST;
		return;
	}
	if (c->kept > 1 && gap > c->interval) {
		ticks = (gap + c->interval / 2) / c->interval;
		if (ticks > 1 && ticks <= c->kept && cadence_is_near(c, gap, ticks * c->interval)) {
			c->kept -= (uint32_t)ticks - 1;
			return;
		}
	}
	c->kept = 0;
	c->interval = gap >= CADENCE_SHORTEST && gap <= CADENCE_LONGEST ? gap : 0;
}
