/* SPDX-License-Identifier: MIT */
/*
 * linux-eevdf: the rule of Linux's fair class since 6.6 (kernel/sched/fair.c). Of the VFs whose
 * virtual runtime is not beyond the mean by weight, the one with the earliest virtual deadline
 * runs, to the end of its request (RUN_TO_PARITY): a VF that wakes does not preempt. A request is
 * slice_us long, and the next one begins where it ended. A VF that sleeps keeps its lag, up to two
 * requests either way (PLACE_LAG). Left out: ticks, and delayed dequeue, by which a VF that owes
 * competes on until it owes nothing.
 */
#include "peer.h"

/* Virtual time: ns of a VF of weight 100. `a` is a VF's virtual runtime, `b` its deadline, and
 * `order` its lag at the end of its last turn. */
static int64_t virtual_time(const struct peer_vf *vf, int64_t ns)
{
	return ns * 100 / vf->weight;
}

static int64_t runtime(const struct peer *p, uint32_t i, vgpu_nsec now)
{
	int64_t ran = p->running == i && now > p->since ? (int64_t)(now - p->since) : 0;

	return p->vfs[i].a + virtual_time(&p->vfs[i], ran);
}

/* Returns the mean virtual runtime by weight of the VFs with work, 0 if there are none; writes the
 * sum of their weights to WEIGHTS. */
static int64_t mean(const struct peer *p, vgpu_nsec now, int64_t *weights)
{
	int64_t sum = 0, base = 0;
	uint32_t i;

	*weights = 0;
	for (i = 0; i < p->facts->max_vfs; i++) {
		if (!p->vfs[i].awake)
			continue;
		base = *weights ? base : runtime(p, i, now);
		*weights += p->vfs[i].weight;
		sum += (runtime(p, i, now) - base) * p->vfs[i].weight;
	}
	return *weights ? base + sum / *weights : 0;
}

static void renew(const struct peer *p, struct peer_vf *vf)
{
	vf->b = vf->a + virtual_time(vf, p->slice);
}

static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct peer *p = state;
	struct peer_vf *vf = &p->vfs[index];
	int64_t weights, at = mean(p, now, &weights), lag = (int64_t)vf->order;

	/* It joins so that its lag is what it was, once the mean has moved by its joining. */
	if (weights)
		vf->a = at - lag * (weights + vf->weight) / weights;
	renew(p, vf);
	return peer_wake(state, index, now);
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct peer *p = state;
	int64_t weights, at = mean(p, now, &weights), left, least = (int64_t)p->facts->min_slice_ns;
	uint32_t i;

	out->vf = VGPU_NO_VF;
	for (i = 0; i < p->facts->max_vfs; i++)
		if (p->vfs[i].awake && p->vfs[i].a <= at &&
		    (out->vf == VGPU_NO_VF || p->vfs[i].b < p->vfs[out->vf].b))
			out->vf = i;
	if (out->vf == VGPU_NO_VF) /* the mean is rounded */
		out->vf = peer_least(p);
	if (out->vf == VGPU_NO_VF)
		return;
	left = (p->vfs[out->vf].b - p->vfs[out->vf].a) * p->vfs[out->vf].weight / 100;
	out->slice = (vgpu_nsec)(left > least ? left : least);
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct peer *p = state;
	struct peer_vf *vf = &p->vfs[usage->vf];
	int64_t most = 2 * virtual_time(vf, p->slice), weights, lag;

	vf->a += virtual_time(vf, (int64_t)usage->used);
	if (vf->a >= vf->b)
		renew(p, vf);
	lag = mean(p, p->since, &weights) - vf->a;
	vf->order = (uint64_t)(lag > most ? most : lag < -most ? -most : lag);
}

PEER(peer_linux_eevdf, "linux-eevdf", "Linux's fair class: EEVDF, requests run to their end", pick,
     account, wake)
