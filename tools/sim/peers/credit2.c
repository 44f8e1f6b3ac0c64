/* SPDX-License-Identifier: MIT */
/*
 * credit2: Xen's scheduler (xen/common/sched/credit2.c). Credits burn faster for smaller weights.
 * The VF with the most credit runs next, until it has no more than the second, or none if the
 * second has none: between 1 ms (Xen's rate limit) and 10 ms. A VF that wakes preempts if it has
 * more credit than the running one, which must have run for the rate limit by then. When the best
 * VF has no credit left, every VF gets 10 ms, and keeps at most 500 us of what it had. Debts beyond
 * 10 ms are forgotten.
 */
#include "peer.h"

#define RESET (10 * (int64_t)VGPU_MSEC)
#define CARRY (500 * (int64_t)VGPU_USEC)
#define RATE_LIMIT ((int64_t)VGPU_MSEC)

static int64_t heaviest(const struct peer *p)
{
	int64_t most = 1;
	uint32_t i;

	for (i = 0; i < p->facts->max_vfs; i++)
		if (p->vfs[i].admitted && p->vfs[i].weight > most)
			most = p->vfs[i].weight;
	return most;
}

static uint32_t richest(const struct peer *p, uint32_t skip)
{
	uint32_t i, best = VGPU_NO_VF;

	for (i = 0; i < p->facts->max_vfs; i++)
		if (i != skip && p->vfs[i].awake &&
		    (best == VGPU_NO_VF || p->vfs[i].a > p->vfs[best].a))
			best = i;
	return best;
}

static void reset(struct peer *p)
{
	uint32_t i;

	for (i = 0; i < p->facts->max_vfs; i++)
		p->vfs[i].a = (p->vfs[i].a < CARRY ? p->vfs[i].a : CARRY) + RESET;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec)
{
	struct peer *p = state;
	uint32_t best = richest(p, VGPU_NO_VF), second;
	int64_t credits, ns;

	if (best == VGPU_NO_VF)
		return;
	while (p->vfs[best].a <= 0)
		reset(p);
	second = richest(p, best);
	credits = p->vfs[best].a;
	if (second != VGPU_NO_VF && p->vfs[second].a > 0)
		credits -= p->vfs[second].a;
	ns = credits * p->vfs[best].weight / heaviest(p);
	out->vf = best;
	out->slice = (vgpu_nsec)(ns < RATE_LIMIT ? RATE_LIMIT : ns > RESET ? RESET : ns);
}

static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct peer *p = state;
	int64_t ran = (int64_t)(now - p->since);

	peer_wake(state, index, now);
	return p->running != VGPU_NO_VF && p->counted + ran >= RATE_LIMIT &&
	       p->vfs[index].a >
		       p->vfs[p->running].a - ran * heaviest(p) / p->vfs[p->running].weight;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;
	struct peer_vf *vf = &p->vfs[usage->vf];

	vf->a -= (int64_t)usage->used * heaviest(p) / vf->weight;
	if (vf->a < -RESET)
		vf->a = -RESET;
}

PEER(peer_credit2, "credit2", "Xen: credits that burn by weight", pick, account, wake)
