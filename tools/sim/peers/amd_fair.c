/* SPDX-License-Identifier: MIT */
/*
 * amd-fair: libgv's software fairness mode. Every configured VF keeps its place in the ring; the
 * slot of a VF without work stays empty. What a VF ran beyond its slice is subtracted from its next
 * slices, which are at least half a slice; for a larger overrun, whole turns are skipped.
 */
#include "peer.h"

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct peer *p = state;
	uint32_t n = p->facts->max_vfs, i;

	if (peer_next_awake(p, p->last) == VGPU_NO_VF)
		return;
	for (i = 0; i < 64 * n; i++) {
		struct peer_vf *vf;
		int64_t left;

		p->last = (p->last + 1) % n;
		vf = &p->vfs[p->last];
		if (!vf->admitted)
			continue;
		if (!vf->awake) { /* the PF's own context runs in its place */
			out->park_until = now + (vgpu_nsec)p->slice;
			return;
		}
		left = p->slice - vf->a;
		if (left <= 0) {
			vf->a -= p->slice;
			continue;
		}
		vf->a = left <= p->slice / 2 ? p->slice / 2 - left : 0;
		out->vf = p->last;
		out->slice = (vgpu_nsec)(left <= p->slice / 2 ? p->slice / 2 : left);
		return;
	}
	out->park_until = now + (vgpu_nsec)p->slice;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;

	if (usage->used > usage->granted)
		p->vfs[usage->vf].a += (int64_t)(usage->used - usage->granted);
}

PEER(peer_amd_fair, "amd-fair", "AMD: ring with dummy slots, overruns taken back", pick, account,
     peer_wake)
