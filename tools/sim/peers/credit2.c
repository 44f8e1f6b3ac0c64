/* SPDX-License-Identifier: MIT */
/*
 * credit2: Xen's. Credits burn faster for smaller weights; who has most is next. When the next one
 * has none left everybody gets 10 ms, and keeps no more than 500 us of what it had. Debts beyond
 * 10 ms are forgotten.
 */
#include "peer.h"

#define RESET (10 * (int64_t)VGPU_MSEC)
#define CARRY (500 * (int64_t)VGPU_USEC)

static uint32_t richest(const struct peer *p)
{
	uint32_t i, best = VGPU_NO_VF;

	for (i = 0; i < p->facts->max_vfs; i++)
		if (p->vfs[i].awake && (best == VGPU_NO_VF || p->vfs[i].a > p->vfs[best].a))
			best = i;
	return best;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct peer *p = state;
	uint32_t best = richest(p), i;

	(void)now;
	if (best == VGPU_NO_VF)
		return;
	while (p->vfs[best].a <= 0) {
		for (i = 0; i < p->facts->max_vfs; i++)
			p->vfs[i].a = (p->vfs[i].a < CARRY ? p->vfs[i].a : CARRY) + RESET;
		best = richest(p);
	}
	out->vf = best;
	out->slice = (vgpu_nsec)(p->vfs[best].a < CARRY	  ? CARRY
				 : p->vfs[best].a > RESET ? RESET
							  : p->vfs[best].a);
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;
	struct peer_vf *vf = &p->vfs[usage->vf];
	int64_t most = 1;
	uint32_t i;

	for (i = 0; i < p->facts->max_vfs; i++)
		if (p->vfs[i].admitted && p->vfs[i].weight > most)
			most = p->vfs[i].weight;
	vf->a -= (int64_t)usage->used * most / vf->weight;
	if (vf->a < -RESET)
		vf->a = -RESET;
}

PEER(peer_credit2, "credit2", "Xen: credits that burn by weight", pick, account, peer_wake);
