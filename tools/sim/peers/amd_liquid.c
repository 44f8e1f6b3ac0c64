/* SPDX-License-Identifier: MIT */
/*
 * amd-liquid: libgv's hybrid mode. The next busy VF in the ring runs; a VF that was skipped eight
 * times is visited for 500 us even without work. Nothing is charged.
 */
#include "peer.h"

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec)
{
	struct peer *p = state;
	uint32_t n = p->facts->max_vfs, i;

	if (peer_next_awake(p, p->last) == VGPU_NO_VF)
		return;
	for (i = 1; i <= n; i++) {
		uint32_t vf = (p->last + i) % n;

		if (!p->vfs[vf].online)
			continue;
		if (!p->vfs[vf].awake && ++p->vfs[vf].a < 8)
			continue;
		out->slice = p->vfs[vf].awake ? (vgpu_nsec)p->slice : 500 * VGPU_USEC;
		p->vfs[vf].a = 0;
		p->last = vf;
		out->vf = vf;
		return;
	}
}

PEER(peer_amd_liquid, "amd-liquid", "AMD: busy VFs in turn, idle ones now and then", pick,
     peer_forget, peer_wake)
