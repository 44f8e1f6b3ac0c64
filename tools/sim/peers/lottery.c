/* SPDX-License-Identifier: MIT */
/* lottery: a ticket is drawn for each turn (Waldspurger and Weihl, OSDI '94), from a fixed seed. */
#include "peer.h"

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec)
{
	struct peer *p = state;
	int64_t tickets = 0, drawn;
	uint32_t i;

	for (i = 0; i < p->facts->max_vfs; i++)
		tickets += p->vfs[i].awake ? p->vfs[i].weight : 0;
	if (tickets == 0)
		return;
	p->rng ^= p->rng << 13; /* Marsaglia's xorshift64 */
	p->rng ^= p->rng >> 7;
	p->rng ^= p->rng << 17;
	drawn = (int64_t)(p->rng % (uint64_t)tickets);
	for (i = 0; drawn >= 0; i++)
		if (p->vfs[i].awake) {
			drawn -= p->vfs[i].weight;
			out->vf = i;
		}
	out->slice = (vgpu_nsec)p->slice;
}

PEER(peer_lottery, "lottery", "a ticket is drawn for each turn", pick, peer_forget, peer_wake)
