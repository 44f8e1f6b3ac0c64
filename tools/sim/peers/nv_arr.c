/* SPDX-License-Identifier: MIT */
/*
 * nv-arr: strict round robin with an averaging factor, as NVIDIA documents it for equal and fixed
 * share since vGPU 15: overshoots are accumulated, and a part of them is taken out of each turn. In
 * the long run the accumulated overshoot is the factor times the mean overshoot.
 */
#include "peer.h"

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec)
{
	struct peer *p = state;
	uint32_t vf = peer_next_awake(p, p->last);
	int64_t paid;

	if (vf == VGPU_NO_VF)
		return;
	paid = p->vfs[vf].a / p->factor;
	if (paid > p->slice - (int64_t)p->facts->min_slice_ns)
		paid = p->slice - (int64_t)p->facts->min_slice_ns;
	p->vfs[vf].a -= paid;
	p->last = vf;
	out->vf = vf;
	out->slice = (vgpu_nsec)(p->slice - paid);
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;

	if (usage->used > usage->granted)
		p->vfs[usage->vf].a += (int64_t)(usage->used - usage->granted);
}

PEER(peer_nv_arr, "nv-arr", "NVIDIA: strict round robin with averaging factor", pick, account,
     peer_wake)
