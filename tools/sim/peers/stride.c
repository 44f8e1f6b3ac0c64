/* SPDX-License-Identifier: MIT */
/* stride: the VF with the smallest pass is next; its pass advances by its run time over its weight
 * (Waldspurger and Weihl, MIT TM-528). */
#include "peer.h"

#define STRIDE 10000

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;

	p->vfs[usage->vf].a += (int64_t)usage->used * STRIDE / p->vfs[usage->vf].weight;
}

PEER(peer_stride, "stride", "the VF with the smallest pass is next", peer_pick_least, account,
     peer_wake_level)
