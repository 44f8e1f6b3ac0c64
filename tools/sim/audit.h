/* SPDX-License-Identifier: MIT */
/*
 * Compares what vgpud has done with a real GPU with its policy's bounds: replays recordings, and
 * judges each turn, each wait and each pair of VFs that always have work. A machine that stalls
 * ends turns late. The records show by how much, and that much is allowed beyond the bound, so that
 * the audit judges vgpud and not the machine.
 *
 * The bound is that of a second instance of the policy with the same parameters, which has never
 * seen a VF stop late.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "vgpu/record.h"

struct audit;

/* Creates an audit, which audit_free frees (it accepts NULL). LATE: the allowed median lateness of
 * timers, ns, such as an emulated machine has; a quarter of the turn is always allowed. FROM: waits
 * and sleep that ended before this wall_ns of the ledgers do not count. Returns NULL if out of
 * memory. Not thread-safe. */
struct audit *audit_new(vgpu_nsec late, vgpu_nsec from);
void audit_free(struct audit *a);

/*
 * Adds a recording. It continues the one before it if the two overlap; else nothing is compared
 * across the gap. FIND finds policies by name. Returns 0, whether or not promises were kept; or
 * -errno with the reason: the recording cannot be replayed, differs from what was recorded, is
 * older than the one before it, or is of another GPU.
 */
int audit_add(struct audit *a, const struct recording *r,
	      const struct vgpu_policy_ops *(*find)(const char *name), struct vgpu_error *err);

/* One VF, in the time since the active VFs or the policy's parameters last changed. */
struct audit_vf {
	bool active;
	double share;
	/* Its longest comparison with another VF, while both had work: what it was charged, and how
	 * far that was allowed to be from its share. 0: there was none. */
	double had_ns, allowed_ns;
	uint64_t turns;
	vgpu_nsec planned_ns; /* the median, from the start of a turn to its planned stop */
	/* Since FROM: its longest wait for a turn, less the windows and resets in it; how long it
	 * had no work, and how often it ran out of it. */
	vgpu_nsec waited_ns, asleep_ns;
	uint64_t naps;
};

struct audit_result {
	uint64_t events, turns, periods; /* periods: between changes, see above */
	uint64_t gaps;			 /* between recordings that do not overlap */
	uint64_t timed;			 /* turns that ended as planned, by a timer */
	vgpu_nsec late_ns, late_max_ns;	 /* how late those timers came: the median, the most */
	double late_part;		 /* the median of that over the length of the turn */
	vgpu_nsec begin;		 /* the first event */
	double pairs, wait; /* the largest parts of what was allowed that were needed */
	uint32_t n_vfs;
	struct audit_vf vfs[VGPU_GPU_MAX_VFS];
	uint64_t n_broken; /* promises that were not kept; the first one in words */
	char broken[240];
};

/* Writes the result so far. */
void audit_finish(const struct audit *a, struct audit_result *out);

/* Reads N recordings from the files PATHS, in order of time, audits them, with LATE and FROM as
 * above, and writes the result to OUT, as text or as JSON. Returns 0: all promises were kept; 1:
 * not all; 2: cannot be judged, with the reason on stderr. */
int audit_files(char *const *paths, int n, vgpu_nsec late, vgpu_nsec from, bool json, FILE *out);
