/* SPDX-License-Identifier: MIT */
/*
 * Budgets, as struct vgpu_bound states them. A job of at most the budget must be done within a
 * period of its arrival. A VF that has work without a break gets k budgets in k periods.
 *
 * A job is judged if the one before it was such a job, was done in time, and arrived a period
 * before; or if its VF is rested. Counting begins when a rested VF wakes, or when a policy states a
 * new budget. The VF may already have used all of the larger of the old and the new budget, plus
 * what it owes by the policy's own account, because a change must not bring another budget. A VF is
 * rested if it has been without work for a period, and has used at most its budgets in its periods
 * until then; what it used beyond them is taken out of the next.
 */
#include <math.h>

#include "monitor_private.h"

/* Returns the largest rest of a budget, ns, that is not worth a world switch, and is carried over
 * to the next period. */
static double crumb(const struct monitor *m)
{
	return (double)m->h->config.min_slice / 16 + 1000;
}

static void missed(struct monitor *m, vgpu_nsec by)
{
	m->result.missed++;
	if (by > m->result.worst_miss)
		m->result.worst_miss = by;
}

/* Ends a late budget: it was served by now, or never will be. */
static void make_up(struct monitor *m, struct watched *w)
{
	vgpu_nsec by = m->h->now - w->budget.late_from;

	if (by > m->result.worst_miss)
		m->result.worst_miss = by;
	w->budget.late_due = 0;
}

/* Counts the deadlines since the last sample; the VF had work at all of them. */
static void count(struct monitor *m, uint32_t vf)
{
	struct budget_watch *b = &m->vfs[vf].budget;

	for (; b->next <= m->h->now; b->next += b->period) {
		double due = (double)b->budget * (double)((b->next - b->since) / b->period);
		double had = monitor_service_at(m, vf, b->next) - b->base + crumb(m);

		m->result.deadlines++;
		if (had >= due)
			continue;
		missed(m, 0);
		if (b->late_due == 0) {
			b->late_from = b->next;
			b->late_due = due;
		}
	}
	if (b->late_due > 0 &&
	    (m->vfs[vf].service - b->base + crumb(m) >= b->late_due || !m->vfs[vf].ready))
		make_up(m, &m->vfs[vf]);
}

static void job_is_done(struct monitor *m, struct budget_watch *b)
{
	b->job = false;
	if (b->length > b->budget) { /* the promised budget has shrunk below the job meanwhile */
		b->in_order = false;
		return;
	}
	m->result.deadlines++;
	if (m->h->now <= b->deadline)
		return;
	missed(m, m->h->now - b->deadline);
	b->in_order = false;
}

/* Begins to count. BEFORE: what the VF may have had of its present period already. */
static void start_counting(struct monitor *m, uint32_t vf, double before)
{
	struct budget_watch *b = &m->vfs[vf].budget;

	b->counting = true;
	b->since = m->h->now;
	b->next = m->h->now + b->period;
	b->base = m->vfs[vf].service - before;
	b->late_due = 0;
}

static void woke(struct monitor *m, uint32_t vf)
{
	const struct vhost_vf *tenant = &m->h->vfs[vf];
	struct budget_watch *b = &m->vfs[vf].budget;
	bool rested = b->level <= 0 && m->h->now - b->idle_since >= b->period;
	bool single = tenant->work != VHOST_ALWAYS && tenant->work != VHOST_SLEEPER &&
		      tenant->jobs_tail - tenant->jobs_head == 1;

	b->in_order = rested || (b->in_order && m->h->now - b->came >= b->period);
	b->budget = m->vfs[vf].v.bound.budget;
	b->length = tenant->queued;
	b->job = single && b->in_order && b->length <= b->budget;
	b->in_order = b->job;
	b->came = m->h->now;
	b->deadline = m->h->now + b->period;
	if (rested && !b->job)
		start_counting(m, vf, 0);
}

static void slept(struct monitor *m, uint32_t vf)
{
	struct budget_watch *b = &m->vfs[vf].budget;

	if (b->job && m->vfs[vf].v.state == VGPU_VF_ACTIVE && !m->h->vfs[vf].busy)
		job_is_done(m, b);
	b->in_order = b->in_order && m->vfs[vf].v.state == VGPU_VF_ACTIVE;
	b->job = false;
	b->counting = false;
	b->idle_since = m->h->now;
}

/* Begins anew: with another PROMISE, or after a time to which no promise applies. */
static void begin_anew(struct monitor *m, uint32_t vf, bool promise)
{
	const struct watched *w = &m->vfs[vf];
	struct budget_watch *b = &m->vfs[vf].budget;
	double owes = -(double)w->v.lag_ns, before = fmax((double)w->before.budget, owes);

	b->level = fmax(b->level, owes);
	b->budget = w->v.bound.budget;
	b->period = w->v.bound.period;
	b->counting = b->job = b->in_order = false;
	b->late_due = 0;
	if (promise && b->budget && w->ready && !m->restarted)
		start_counting(m, vf, fmax(before, (double)b->budget));
}

/* Returns whether the promise is another one: an operator or another policy has changed it. */
static bool is_another(const struct monitor *m, const struct watched *w)
{
	const struct vgpu_bound *now = &w->v.bound;
	const struct budget_watch *b = &w->budget;

	if (m->replaced || (now->budget == 0) != (b->budget == 0))
		return true;
	return now->budget &&
	       (now->period != b->period || (m->changed && now->budget != w->before.budget));
}

void judge_budget(struct monitor *m, uint32_t vf)
{
	struct watched *w = &m->vfs[vf];
	struct budget_watch *b = &w->budget;

	if (b->budget) {
		b->level -=
			(double)(m->h->now - b->level_at) * (double)b->budget / (double)b->period;
		b->level = (b->level > 0 ? b->level : 0) + w->service - w->last;
	}
	b->level_at = m->h->now;
	if (m->interrupted && (m->covered == VGPU_NO_VF || m->covered == vf))
		begin_anew(m, vf, false);
	if (b->counting)
		count(m, vf);
	/* What the policy has measured of a VF may make its promise smaller. */
	if (is_another(m, w))
		begin_anew(m, vf, true);
	else if (w->v.bound.budget < b->budget)
		b->budget = w->v.bound.budget;
	if (b->budget && w->ready && !b->had_work)
		woke(m, vf);
	else if (b->had_work && !w->ready)
		slept(m, vf);
	b->had_work = w->ready;
}

/* A second job has come, so that the first is not alone any more. */
void budget_arrival(struct monitor *m, uint32_t vf)
{
	m->vfs[vf].budget.job = false;
	m->vfs[vf].budget.in_order = false;
}

void budget_finish(struct monitor *m, uint32_t vf)
{
	struct budget_watch *b = &m->vfs[vf].budget;

	if (!(m->judges & MONITOR_BUDGETS) || b->budget == 0)
		return;
	if (b->job && m->h->now > b->deadline)
		job_is_done(m, b);
	if (b->late_due > 0)
		make_up(m, &m->vfs[vf]);
}
