/* SPDX-License-Identifier: MIT */
/* stride: the VF with the smallest pass is next; its pass advances by its run time over its weight
 * (Waldspurger and Weihl, MIT TM-528). */
#include "peer.h"

#define STRIDE 10000

static bool wake(void *state, uint32_t vf, vgpu_nsec now)
{
	struct peer *p = state;
	int64_t least = peer_least_value(p);

	if (p->vfs[vf].a < least)
		p->vfs[vf].a = least;
	return peer_wake(state, vf, now);
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct peer *p = state;

	(void)now;
	out->vf = peer_least(p);
	out->slice = (vgpu_nsec)p->slice;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;

	p->vfs[usage->vf].a += (int64_t)usage->used * STRIDE / p->vfs[usage->vf].weight;
}

PEER(peer_stride, "stride", "the VF with the smallest pass is next", pick, account, wake)
