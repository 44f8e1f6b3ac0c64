/* SPDX-License-Identifier: MIT */
/*
 * Lag, against an ideal fluid server, of every VF to which proportional sharing is promised. The
 * server's capacity is what those VFs were really charged; what the other VFs were charged does not
 * count.
 *
 * A VF has work in the fluid server until the server has served all that its tenant has asked for
 * so far: the jobs in its queue, and what the VF was charged beyond its jobs (it stopped late, it
 * was switched for), as that happens. A VF that always has work has it without end. When all work
 * is done, real and ideal service are equal, and the comparison begins anew.
 */
#include <math.h>

#include "monitor_private.h"

/*
 * Returns whether the VF's lag is judged: not with a guarantee or a limit. Then the VF's share
 * depends on what other VFs use, but share() holds only while all VFs have work. Its budget and its
 * limit are judged instead.
 */
static bool is_proportional(const struct monitor *m, const struct watched *w)
{
	return m->core.policy->promises & VGPU_PROMISE_PROPORTIONAL && w->v.share_denominator > 0 &&
	       w->v.bound.max_lag != VGPU_NEVER && w->v.bound.budget == 0 &&
	       w->v.bound.limit_ppm == 0;
}

static void join(struct monitor *m, uint32_t vf)
{
	m->fluid[vf] = (struct fluid_vf){.in = true};
	m->vfs[vf].lag.base = m->vfs[vf].service;
}

static double had(const struct watched *w)
{
	return w->service - w->lag.base;
}

/* Advances the fluid server to this sample. */
static void advance(struct monitor *m)
{
	double capacity = -m->early;
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++) {
		const struct watched *w = &m->vfs[i];

		if (!m->fluid[i].in)
			continue;
		capacity += w->service - w->last;
		m->fluid[i].known = fmax(m->fluid[i].known, had(w));
	}
	m->early = 0;
	fluid_serve(m->fluid, m->h->n_vfs, capacity);
}

/* Updates the work that each VF has in the fluid server. */
static void look_at_work(struct monitor *m)
{
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++) {
		const struct vhost_vf *vf = &m->h->vfs[i];
		const struct watched *w = &m->vfs[i];
		double known = had(w) + (w->ready ? (double)vf->queued : 0);

		if (!m->fluid[i].in)
			continue;
		m->fluid[i].weight = (double)w->v.share_numerator / (double)w->v.share_denominator;
		if (w->ready && (vf->work == VHOST_ALWAYS || vf->work == VHOST_SLEEPER))
			m->fluid[i].endless = true;
		else
			fluid_truncate(m->fluid, m->h->n_vfs, i, known);
	}
}

/* Returns whether no VF in the comparison has work or is on the engine. */
static bool all_is_done(const struct monitor *m)
{
	bool anybody = false;
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++) {
		if (m->fluid[i].in && (m->vfs[i].ready || m->h->running == i))
			return false;
		anybody = anybody || m->fluid[i].in;
	}
	return anybody;
}

/* Carries over what VF is owed. It is unknown which other VFs will have work at the same time; a VF
 * that waits, waits beside all of them. */
static void carry(struct monitor *m, uint32_t vf)
{
	struct watched *w = &m->vfs[vf];
	double own = fabs((double)w->v.lag_ns);

	w->lag.carried = monitor_carried(m, vf, fmax(own, monitor_owed(m)), w->lag.carried);
	w->wait.owes = monitor_carried(m, vf, own, w->wait.owes);
}

static void membership(struct monitor *m)
{
	bool anew = all_is_done(m);
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++) {
		struct watched *w = &m->vfs[i];
		bool in = is_proportional(m, w);

		if (anew)
			w->lag.carried = w->wait.owes = 0;
		if (m->changed)
			carry(m, i);
		if (m->fluid[i].in && !in)
			fluid_leave(m->fluid, m->h->n_vfs, i, had(w));
		if (in && (anew || !m->fluid[i].in))
			join(m, i);
	}
}

static void judge(struct monitor *m, uint32_t vf)
{
	struct watched *w = &m->vfs[vf];
	double lag = had(w) - m->fluid[vf].had;
	double allowed = (double)w->v.bound.max_lag + w->lag.carried;
	double ratio = fabs(lag) / fmax(allowed, 1);

	m->result.lag = fmax(m->result.lag, ratio);
	if (ratio > 1)
		vhost_fail(m->h,
			   "VF %u: %.6f ms %s an ideal fluid server; %.6f ms allowed, lag/bound "
			   "%.4f",
			   vf, fabs(lag) / 1e6, lag > 0 ? "ahead of" : "behind", allowed / 1e6,
			   ratio);
}

void judge_lag(struct monitor *m)
{
	uint32_t i;

	advance(m);
	/* The policy does not control the time that a hanging VF takes. */
	for (i = 0; m->hung && i < m->h->n_vfs; i++)
		m->vfs[i].lag.carried = fmax(m->vfs[i].lag.carried, m->overrun);
	/* In the middle of a dispatch its overrun is not yet in the bounds; and where the policy
	 * has changed, not in those of the new one. */
	for (i = 0; m->accounted && !m->changed && i < m->h->n_vfs; i++)
		if (m->fluid[i].in)
			judge(m, i);
	membership(m);
	look_at_work(m);
}

void lag_arrival(struct monitor *m, uint32_t vf, vgpu_nsec length)
{
	double since = (double)(m->h->now - m->last) - m->early;

	if (m->runner != VGPU_NO_VF && m->fluid[m->runner].in && since > 0) {
		struct fluid_vf *runner = &m->fluid[m->runner];

		/* It has been charged for as long as it ran. */
		runner->known = fmax(runner->known, had(&m->vfs[m->runner]) + m->early + since);
		fluid_serve(m->fluid, m->h->n_vfs, since);
		m->early += since;
	}
	if (m->fluid[vf].in)
		m->fluid[vf].known += (double)length;
}
