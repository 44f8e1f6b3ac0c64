/* SPDX-License-Identifier: MIT */
/*
 * How far two VFs that always have work may be apart, in service over weight, is the sum of their
 * bounds over their weights, whatever all others do (the measure of Golestani, INFOCOM '94). Where
 * it applies it is sharper than the comparison with a fluid server. Bounds count from equal
 * services. After a change they count from where each VF was, and what the VF was allowed before
 * the change is added.
 */
#include <math.h>

#include "monitor_private.h"

static bool can_be_compared(const struct monitor *m, const struct watched *w)
{
	return w->pair.judged && w->ready && m->core.policy->promises & VGPU_PROMISE_PROPORTIONAL &&
	       w->v.bound.max_lag != VGPU_NEVER && w->v.bound.budget == 0 &&
	       w->v.bound.limit_ppm == 0;
}

/* Sets the origin, from which on services are compared. */
static void set_origin(struct monitor *m)
{
	uint32_t i;

	m->pairs_compared = true;
	for (i = 0; i < m->h->n_vfs; i++) {
		struct watched *w = &m->vfs[i];

		w->pair.base = w->service;
		w->pair.weight = 0;
		if (can_be_compared(m, w))
			w->pair.weight =
				(double)w->v.share_numerator / (double)w->v.share_denominator;
	}
}

/*
 * Finds the pair that needs the largest part of its allowance, without comparing all pairs: a pair
 * needs more than PART if the two VFs are further apart than PART of both allowances (Dinkelbach,
 * Management Science 13(7), 1967). Returns whether one needs more than *PART, and sets *PART to
 * that.
 */
static bool needs_more(const struct monitor *m, double *part)
{
	const struct pair_watch *high = NULL, *low = NULL;
	double needed;
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++) {
		const struct pair_watch *w = &m->vfs[i].pair;

		if (w->weight == 0)
			continue;
		if (!high || w->norm - *part * w->slack > high->norm - *part * high->slack)
			high = w;
		if (!low || w->norm + *part * w->slack < low->norm + *part * low->slack)
			low = w;
	}
	if (!high || high == low)
		return false;
	needed = (high->norm - low->norm) / (high->slack + low->slack);
	if (!(needed > *part))
		return false;
	*part = needed;
	return true;
}

static void compare(struct monitor *m)
{
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++) {
		struct watched *w = &m->vfs[i];

		if (w->pair.weight == 0)
			continue;
		w->pair.norm = (w->service - w->pair.base) / w->pair.weight;
		w->pair.slack = ((double)w->v.bound.max_lag + w->pair.carried) / w->pair.weight;
	}
	while (needs_more(m, &m->result.pairs))
		;
	if (m->result.pairs > 1)
		vhost_fail(m->h,
			   "%s: a pair of VFs is %.4f times as far apart as their bounds allow",
			   m->core.policy->name, m->result.pairs);
}

static void carry(struct monitor *m)
{
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++)
		m->vfs[i].pair.carried = monitor_carried(m, i, fabs((double)m->vfs[i].v.lag_ns),
							 m->vfs[i].pair.carried);
}

void judge_pairs(struct monitor *m)
{
	bool changed = m->changed || m->shares_changed;
	uint32_t i;

	/* A grant may have been given already at the instant from which services are compared. */
	if (changed && m->h->now >= m->h->work_from)
		carry(m);
	if (!m->pairs_compared || changed) {
		if (m->h->now > m->h->work_from)
			set_origin(m);
		return;
	}
	for (i = 0; i < m->h->n_vfs; i++)
		if (!can_be_compared(m, &m->vfs[i]))
			m->vfs[i].pair.weight = 0;
	if (m->accounted)
		compare(m);
}
