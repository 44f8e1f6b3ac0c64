/* SPDX-License-Identifier: MIT */
/*
 * Exclusive windows, whatever the policy is:
 *
 * - A VF begins a window only if it owes at most half a second for its former windows and resets.
 *   Charges pay for those; while the VF has no work, its share of the time does. If the policy
 *   guarantees budgets, or promises neither shares nor waits, an eighth of its share of the time
 *   pays, and nothing else.
 * - A wait contains one window, and one more for each second that the engine was not in one.
 * - A VF that owes so little gets its window after at most one window of each other VF. Between two
 *   of those windows each VF that waits may have a turn: a second for each at most.
 * - Beside VFs that take windows, a VF that always has work gets its share of the time, except the
 * lag that the policy allows, the time that no VF had, and what each other VF may take in advance:
 * half a second, a window, and the time to load it.
 */
#include <math.h>

#include "monitor_private.h"

#define CREDIT 0.5e9
#define LARGEST_DEBT 2e9
#define STALL 1e9
#define LEAST_SHARE 0.001
/* The core learns that a VF has no work after the VF has stopped; and it counts shares in
 * billionths, rounds its share, and in the sum each VF's. */
#define TOLERANCE 1e6
#define ROUNDED(n_vfs) (((n_vfs) + 2) * 1e-9)

/* Returns the share that the policy states for a VF, at most 1. */
static double stated_share(const struct vgpu_vf_view *v)
{
	if (v->share_denominator == 0)
		return 0;
	return fmin((double)v->share_numerator / (double)v->share_denominator, 1);
}

/* Notes the stated share of each VF, and returns their sum. */
static double stated_shares(struct monitor *m)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++) {
		m->vfs[i].window.stated = stated_share(&m->vfs[i].v);
		sum += m->vfs[i].window.stated;
	}
	return sum;
}

/* Returns whether charges pay for windows. */
static bool is_charged(const struct monitor *m)
{
	uint64_t promises = m->core.policy->promises;

	return !(promises & VGPU_PROMISE_GUARANTEE) &&
	       (promises & VGPU_PROMISE_PROPORTIONAL || promises & VGPU_PROMISE_NO_STARVATION);
}

/* Returns the time in windows of all VFs, ns, including those that are being loaded. */
static double in_windows(const struct monitor *m)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++)
		sum += (double)m->vfs[i].v.ledger.exclusive_ns;
	return sum;
}

/* Returns the most that one window takes beyond its own length, ns. */
static double around(const struct vhost *h)
{
	return (double)(h->init.max + h->load.max + h->run.max + 4 * h->timer_late.max +
			h->config.grace);
}

/* Updates what VF owes, and judges that if VF has just begun a window. ALL: the sum of the stated
 * shares. */
static void owe(struct monitor *m, uint32_t vf, double all)
{
	struct watched *w = &m->vfs[vf];
	struct window_watch *d = &w->window;
	const struct vgpu_vf_ledger *l = &w->v.ledger;
	double span = (double)(m->h->now - m->last), took = (double)l->exclusive_ns - d->exclusive;
	double apart = (double)(l->exclusive_ns + l->reset_ns) - d->apart;
	double largest = fmax(LARGEST_DEBT, CREDIT + (double)m->h->config.window_max);
	double paid = d->pays ? d->rate * (span - took) : 0;

	if (m->restarted)
		took = apart = paid = 0;
	if (w->v.state != VGPU_VF_EXCLUSIVE) {
		d->in = false;
	} else if (!d->in && (took > 0 || m->window_of == vf)) {
		d->in = true;
		if (!d->vague && d->owes - paid > CREDIT + TOLERANCE + d->unsure)
			vhost_fail(m->h, "VF %u: a window begins while the VF owes %.6f ms", vf,
				   (d->owes - paid) / 1e6);
	}
	d->owes += apart - ((double)l->debt_charged_ns - d->charged);
	d->owes -= d->pays ? d->rate * span : 0;
	d->unsure += d->pays ? span * ROUNDED(m->h->n_vfs) : 0;
	d->owes = fmin(fmax(d->owes, 0), largest);
	if (m->restarted || (d->vague && l->debt_ns == 0))
		d->owes = 0;
	if (d->owes <= 0)
		d->unsure = 0;
	d->exclusive = (double)l->exclusive_ns;
	d->apart = (double)(l->exclusive_ns + l->reset_ns);
	d->charged = (double)l->debt_charged_ns;
	if (m->restarted || l->debt_ns == 0)
		d->vague = false;
	/* What a VM owes for the time at another host is not in this count. */
	if (m->changed || (m->shares_changed && !m->states_changed) ||
	    (d->came && !w->v.incoming && l->debt_ns > 0))
		d->vague = true;
	d->came = w->v.incoming;
	d->pays = !is_charged(m) || (!w->ready && m->has_turn != vf);
	d->share = all > 0 ? d->stated / all : 0;
	d->rate = fmax(is_charged(m) ? d->share : d->share / 8, LEAST_SHARE);
}

/* Judges how many windows the wait of a VF for the engine contains. OF_ALL: the time of all
 * windows, ns. */
static void in_wait(struct monitor *m, uint32_t vf, double of_all)
{
	struct watched *w = &m->vfs[vf];
	struct window_watch *d = &w->window;
	double allowed;

	if (!w->wait.on) {
		d->seen = m->open_window != VGPU_NO_VF;
		d->since = m->h->now;
		d->of_all = of_all;
		return;
	}
	if (m->window_of == VGPU_NO_VF)
		return;
	d->seen++;
	allowed = 1 + floor(((double)(m->h->now - d->since) - of_all + d->of_all) / STALL);
	if (d->seen > allowed)
		vhost_fail(m->h, "VF %u: %u windows in a wait of %.6f ms, %.0f allowed", vf,
			   d->seen, (double)(m->h->now - d->since) / 1e6, allowed);
}

/* Judges how long, and behind how many windows of other VFs, a VF waits for its own window, with
 * credit for it. */
static void for_window(struct monitor *m, uint32_t vf)
{
	struct watched *w = &m->vfs[vf];
	struct window_watch *d = &w->window;
	double n = m->h->n_vfs, apart = (double)m->windows_and_resets, rounds, allowed;

	if (w->v.state != VGPU_VF_EXCLUSIVE || d->in || d->vague || w->v.away || w->v.incoming ||
	    d->owes > CREDIT - TOLERANCE - d->unsure) {
		d->asked = VGPU_NEVER;
		return;
	}
	if (d->asked == VGPU_NEVER) {
		d->asked = m->h->now;
		d->others = 0;
		d->apart_before = apart;
	}
	d->others += m->window_of != VGPU_NO_VF;
	rounds = d->others + 1;
	allowed = rounds * ((n + 1) * STALL + (double)m->h->config.max_slice + (double)m->hangs +
			    around(m->h));
	if (d->others > n - 1)
		vhost_fail(m->h, "VF %u: %u windows of other VFs come before its own", vf,
			   d->others);
	if ((double)(m->h->now - d->asked) - (apart - d->apart_before) > allowed)
		vhost_fail(m->h, "VF %u: waits for a window for %.6f ms, %.6f ms allowed", vf,
			   (double)(m->h->now - d->asked) / 1e6, allowed / 1e6);
}

/* Returns the time, ns, that no VF was charged for, without windows and resets. */
static double nobodys(const struct monitor *m)
{
	double sum = (double)(m->core.engine.switch_ns + m->core.engine.idle_ns + m->hangs);
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++)
		sum += (double)(m->vfs[i].v.ledger.forgiven_ns + m->vfs[i].v.ledger.donated_ns);
	return sum;
}

static bool is_promised_a_share(const struct monitor *m, const struct watched *w)
{
	return w->pair.judged && w->ready && m->core.policy->promises & VGPU_PROMISE_PROPORTIONAL &&
	       w->v.bound.max_lag != VGPU_NEVER && w->v.bound.budget == 0 &&
	       w->v.bound.limit_ppm == 0 && m->h->now > m->h->work_from && !m->h->reset_fails_ppm;
}

static void share(struct monitor *m, uint32_t vf, double lost)
{
	struct watched *w = &m->vfs[vf];
	struct window_watch *d = &w->window;
	double ahead = CREDIT + (double)(m->h->config.window_max + m->h->reset.max) + around(m->h);
	double due, behind;

	if (!is_promised_a_share(m, w) || m->changed || m->shares_changed || m->restarted ||
	    !d->counts) {
		d->counts = is_promised_a_share(m, w);
		d->from = m->h->now;
		d->base = w->service;
		d->lost = lost;
		return;
	}
	if (!m->accounted)
		return;
	due = d->share * (double)(m->h->now - d->from) - (lost - d->lost);
	behind = due - (w->service - d->base);
	if (behind > (double)w->v.bound.max_lag + w->lag.carried + ahead * m->h->n_vfs)
		vhost_fail(m->h,
			   "VF %u: %.6f ms behind its share of the time, beside exclusive windows",
			   vf, behind / 1e6);
}

void judge_windows(struct monitor *m)
{
	double lost = nobodys(m), shares = stated_shares(m), windows = in_windows(m);
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++) {
		owe(m, i, shares);
		in_wait(m, i, windows);
		for_window(m, i);
		share(m, i, lost);
	}
}
