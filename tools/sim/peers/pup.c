/* SPDX-License-Identifier: MIT */
/*
 * pup: XSched's utilisation partition. In each round a VF gets a budget by its part, plus what it
 * saved, which shrinks by a tenth each time; it runs until the budget is used up. Overruns are not
 * charged.
 */
#include "peer.h"

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec)
{
	struct peer *p = state;
	int64_t weights = peer_weights(p), part;
	uint32_t n = p->facts->max_vfs, i, round, vf;

	if (peer_next_awake(p, p->last) == VGPU_NO_VF)
		return;
	for (round = 0;; round++) {
		for (i = 0; i < n; i++) {
			vf = (p->last + i) % n;
			if (p->vfs[vf].awake && p->vfs[vf].a >= (int64_t)p->facts->min_slice_ns) {
				p->last = vf;
				out->vf = vf;
				out->slice = (vgpu_nsec)p->vfs[vf].a;
				return;
			}
		}
		for (i = 0; i < n; i++) {
			part = p->slice * n * p->vfs[i].weight / weights;
			p->vfs[i].a = part + (p->vfs[i].a > 0 ? p->vfs[i].a * 9 / 10 : 0);
		}
		p->last = (p->last + 1) % n;
	}
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;

	p->vfs[usage->vf].a -=
		(int64_t)(usage->used < usage->granted ? usage->used : usage->granted);
}

PEER(peer_pup, "pup", "XSched: parts of a round, savings decay", pick, account, peer_wake)
