/* SPDX-License-Identifier: MIT */
/*
 * band: Gdev's bandwidth-aware credit scheduler (Kato et al., USENIX ATC '12). Credits are granted
 * every 30 ms and limited to 30 ms. A VF that has no credit *and* has used more than its share is
 * over its share: before it runs, the engine waits 500 us for another VF to wake.
 */
#include "peer.h"

#define PERIOD (30 * VGPU_MSEC)

static void replenish(struct peer *p, vgpu_nsec now)
{
	int64_t weights = peer_weights(p);
	uint32_t i;

	for (; p->next <= now; p->next = p->next ? p->next + PERIOD : now + PERIOD)
		for (i = 0; i < p->facts->max_vfs; i++) {
			struct peer_vf *vf = &p->vfs[i];

			vf->a += (int64_t)PERIOD * vf->weight / weights;
			if (vf->a > (int64_t)PERIOD || vf->a < -(int64_t)PERIOD)
				vf->a = 0;
			vf->b /= 2; /* recent use */
		}
}

static bool is_over(const struct peer *p, const struct peer_vf *vf)
{
	int64_t all = 0;
	uint32_t i;

	for (i = 0; i < p->facts->max_vfs; i++)
		all += p->vfs[i].b;
	return vf->a < 0 && vf->b * peer_weights(p) > all * vf->weight;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct peer *p = state;
	uint32_t n = p->facts->max_vfs, i, vf = 0;

	replenish(p, now);
	for (i = 1; i <= n; i++) {
		vf = (p->last + i) % n;
		if (p->vfs[vf].awake && !is_over(p, &p->vfs[vf]))
			break;
	}
	if (i > n && !p->idled && peer_next_awake(p, p->last) != VGPU_NO_VF) {
		p->idled = true;
		out->park_until = now + 500 * VGPU_USEC;
		return;
	}
	p->idled = false;
	out->vf = i <= n ? vf : peer_next_awake(p, p->last);
	out->slice = (vgpu_nsec)p->slice;
	p->last = out->vf == VGPU_NO_VF ? p->last : out->vf;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;

	p->vfs[usage->vf].a -= (int64_t)usage->used;
	p->vfs[usage->vf].b += (int64_t)usage->used;
}

PEER(peer_band, "band", "Gdev: credit and measured use", pick, account, peer_wake)
