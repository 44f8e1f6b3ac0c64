/* SPDX-License-Identifier: MIT */
/*
 * nv-least: the VF that was scheduled least is next (NVIDIA's non-strict mode, the only one before
 * vGPU 15). A VF that wakes is not behind those that worked meanwhile.
 */
#include "peer.h"

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

	p->vfs[usage->vf].a += (int64_t)usage->used;
}

PEER(peer_nv_least, "nv-least", "NVIDIA: least time scheduled first", pick, account, wake)
