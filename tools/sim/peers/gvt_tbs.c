/* SPDX-License-Identifier: MIT */
/*
 * gvt-tbs: Intel GVT-g's time-based scheduling (drivers/gpu/drm/i915/gvt/sched_policy.c). Every 100
 * ms each vGPU gets its weight's part of 100 ms, switches not counted; every tenth time debts are
 * forgotten. The vGPU that was served longest ago and has time left runs next, for a tick of 1 ms.
 */
#include "peer.h"

#define PERIOD (100 * VGPU_MSEC)
#define TICK VGPU_MSEC

static void allot(struct peer *p, vgpu_nsec now)
{
	int64_t weights = peer_weights(p), part;
	uint32_t i;

	while (p->next <= now) {
		for (i = 0; i < p->facts->max_vfs; i++) {
			part = (int64_t)PERIOD * p->vfs[i].weight / weights;
			p->vfs[i].a = p->count % 10 == 0 ? part : p->vfs[i].a + part;
		}
		p->count++;
		p->next = p->next ? p->next + PERIOD : now + PERIOD;
	}
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct peer *p = state;
	uint32_t i;

	allot(p, now);
	for (i = 0; i < p->facts->max_vfs; i++)
		if (p->vfs[i].awake && p->vfs[i].a > 0 &&
		    (out->vf == VGPU_NO_VF || p->vfs[i].order < p->vfs[out->vf].order))
			out->vf = i;
	out->slice = TICK;
	out->park_until = p->next;
	if (out->vf != VGPU_NO_VF)
		p->vfs[out->vf].order = now;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;

	p->vfs[usage->vf].a -= (int64_t)usage->used;
}

PEER(peer_gvt_tbs, "gvt-tbs", "Intel GVT-g: budgets per 100 ms, debts forgotten each second", pick,
     account, peer_wake)
