/* SPDX-License-Identifier: MIT */
/*
 * nv-least: the VF that was scheduled least is next (NVIDIA's non-strict mode, the only one before
 * vGPU 15). A VF that wakes is not behind those that worked meanwhile.
 */
#include "peer.h"

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;

	p->vfs[usage->vf].a += (int64_t)usage->used;
}

PEER(peer_nv_least, "nv-least", "NVIDIA: least time scheduled first", peer_pick_least, account,
     peer_wake_level)
