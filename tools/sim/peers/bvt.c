/* SPDX-License-Identifier: MIT */
/*
 * bvt: Borrowed Virtual Time (Duda and Cheriton, SOSP '99). A VF's actual virtual time A advances
 * by its run time over its weight. The VF with the smallest effective virtual time, A less its
 * warp, is next, and runs until it is ahead of the second by the context switch allowance C
 * (slice_us). A warp is borrowed: A advances with and without it. A VF warps for at most L
 * (warp_limit_us) of its own time in a row, and then not for U (unwarp_us); 0 means no limit. A VF
 * that wakes is not behind those that worked meanwhile: its A is at least the smallest A of those
 * with work (scheduler virtual time). It preempts if its effective time is smaller than that of the
 * running VF.
 */
#include "peer.h"

/* Virtual time: ns of a VF of weight 100. */
static int64_t virtual_time(const struct peer_vf *vf, int64_t ns)
{
	return ns * 100 / vf->weight;
}

/* Returns whether a VF may warp at NOW, after it has run for UNCHARGED ns that are not charged yet.
 */
static bool warps(const struct peer_vf *vf, vgpu_nsec now, int64_t uncharged)
{
	return vf->warp > 0 && now >= vf->unwarped_until &&
	       (vf->warp_limit == 0 || vf->warped + uncharged < vf->warp_limit);
}

/* Returns the VF's run time that is not charged yet, in ns. */
static int64_t ran(const struct peer *p, uint32_t index, vgpu_nsec now)
{
	return p->running == index ? (int64_t)(now - p->since) : 0;
}

static int64_t actual(const struct peer *p, uint32_t index, vgpu_nsec now)
{
	return p->vfs[index].a + virtual_time(&p->vfs[index], ran(p, index, now));
}

static int64_t effective(const struct peer *p, uint32_t index, vgpu_nsec now)
{
	const struct peer_vf *vf = &p->vfs[index];

	return actual(p, index, now) - (warps(vf, now, ran(p, index, now)) ? vf->warp : 0);
}

/* Returns the VF with work and the smallest effective time, except SKIP, or VGPU_NO_VF; ties are
 * broken by number. */
static uint32_t first(const struct peer *p, uint32_t skip, vgpu_nsec now)
{
	uint32_t i, best = VGPU_NO_VF;

	for (i = 0; i < p->facts->max_vfs; i++)
		if (i != skip && p->vfs[i].awake &&
		    (best == VGPU_NO_VF || effective(p, i, now) < effective(p, best, now)))
			best = i;
	return best;
}

static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct peer *p = state;
	struct peer_vf *vf = &p->vfs[index];
	uint32_t i;
	int64_t least = INT64_MAX;

	for (i = 0; i < p->facts->max_vfs; i++)
		if (p->vfs[i].awake && actual(p, i, now) < least)
			least = actual(p, i, now);
	if (least != INT64_MAX && vf->a < least)
		vf->a = least;
	vf->warped = 0;
	peer_wake(state, index, now);
	return p->running != VGPU_NO_VF && effective(p, index, now) < effective(p, p->running, now);
}

/* Returns how long the turn of a VF may be: until the VF is ahead of the second by C, or its warp
 * ends if that is sooner. */
static vgpu_nsec turn(const struct peer *p, uint32_t index, vgpu_nsec now)
{
	const struct peer_vf *vf = &p->vfs[index];
	uint32_t second = first(p, index, now);
	int64_t ns = 10 * (int64_t)p->slice, left = vf->warp_limit - vf->warped;

	if (second != VGPU_NO_VF)
		ns = (effective(p, second, now) - effective(p, index, now)) * vf->weight / 100 +
		     p->slice;
	if (warps(vf, now, 0) && vf->warp_limit > 0 && left < ns)
		ns = left;
	return (vgpu_nsec)(ns > (int64_t)p->facts->min_slice_ns ? ns
								: (int64_t)p->facts->min_slice_ns);
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct peer *p = state;

	out->vf = first(p, VGPU_NO_VF, now);
	if (out->vf != VGPU_NO_VF)
		out->slice = turn(p, out->vf, now);
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;
	struct peer_vf *vf = &p->vfs[usage->vf];

	if (warps(vf, usage->start, 0))
		vf->warped += (int64_t)usage->used;
	if (vf->warp_limit > 0 && vf->warped >= vf->warp_limit) {
		vf->unwarped_until = usage->end + (vgpu_nsec)vf->unwarp;
		vf->warped = 0;
	}
	vf->a += virtual_time(vf, (int64_t)usage->used);
}

PEER(peer_bvt, "bvt", "Borrowed Virtual Time: latency-sensitive VFs warp", pick, account, wake)
