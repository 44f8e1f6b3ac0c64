/* SPDX-License-Identifier: MIT */
/*
 * Waits: from the instant at which a VF has work and could run (it wakes, or was stopped) to the
 * instant at which it runs. Allowed is the larger of what the policy stated at the beginning and at
 * the end of the wait. If an operator has changed something meanwhile, the largest wait that was
 * stated before the change is added, once. The daemon delays a second change until each waiting VF
 * has had a turn, for at most 1 s (docs/policies.md, Changes). If that second has passed, the time
 * that the VF has waited so far is added instead. Also added are the time of hangs, exclusive
 * windows and resets, and for each window and reset one world switch to it and one away from it.
 * After a restart of vgpud, the time is added until the VF that it found running has stopped: vgpud
 * asks it to stop at once, but does not know yet how late that may be.
 */
#include <math.h>

#include "monitor_private.h"

/* docs/policies.md, "Changes" */
#define POLICY_STAYS VGPU_SEC
#define COMMANDS                                                                                   \
	(1u << VGPU_PHASE_LOAD | 1u << VGPU_PHASE_START | 1u << VGPU_PHASE_SAVE |                  \
	 1u << VGPU_PHASE_DROP)

static vgpu_nsec more(vgpu_nsec a, vgpu_nsec b)
{
	return a > b ? a : b;
}

/* Returns the time until now, ns, that the policy did not control, without the switches to such
 * times. */
static vgpu_nsec apart(const struct monitor *m)
{
	return m->windows_and_resets + m->hangs + m->making_room;
}

static void count_from_now(struct monitor *m, struct wait_watch *w)
{
	w->since = m->h->now;
	w->apart = apart(m);
	w->n_apart = m->n_windows_and_resets;
}

/*
 * Returns how long a VF may wait in addition, because it came to the policy with more than it was
 * due: until its share of the time has paid for that. The time of the change does not matter,
 * unless no VF had work at some instant since. The same holds for a VF that is charged for its own
 * window or reset.
 */
static vgpu_nsec paying_off(const struct watched *w)
{
	return (vgpu_nsec)((w->wait.owes + w->wait.instalment) * (double)w->v.share_denominator /
			   fmax((double)w->v.share_numerator, 1));
}

/* Judges a wait that lasted until UNTIL. STATED: the present bound. */
static void judge(struct monitor *m, uint32_t vf, vgpu_nsec until, vgpu_nsec stated)
{
	const struct wait_watch *w = &m->vfs[vf].wait;
	vgpu_nsec bound = more(w->bound, stated);
	vgpu_nsec gone = apart(m) - w->apart, waited = until - w->since;
	uint64_t n = m->n_windows_and_resets - w->n_apart;
	double ratio;

	if (bound == VGPU_NEVER)
		return;
	if (w->carried != VGPU_NEVER)
		bound += w->carried;
	bound += paying_off(&m->vfs[vf]);
	gone += 2 * n * m->core.facts.switch_high_ns;
	waited = waited > gone ? waited - gone : 0;
	ratio = (double)waited / fmax((double)bound, 1);
	m->result.wait = fmax(m->result.wait, ratio);
	if (ratio > 1)
		vhost_fail(m->h, "VF %u waited for %.6f ms; %.6f ms allowed, wait/bound %.4f", vf,
			   (double)waited / 1e6, (double)bound / 1e6, ratio);
}

static void begin_wait(struct monitor *m, uint32_t vf)
{
	struct wait_watch *w = &m->vfs[vf].wait;

	w->on = true;
	count_from_now(m, w);
	w->bound = m->vfs[vf].v.bound.max_wait;
	w->carried = m->h->now < w->old_until ? w->old : VGPU_NEVER;
}

/* Carries over the bound that was stated before a change: it is still owed. A policy that stated
 * none owes nothing. */
static void carry(struct monitor *m, uint32_t vf)
{
	struct wait_watch *w = &m->vfs[vf].wait;
	vgpu_nsec before = m->vfs[vf].before.max_wait;

	if (w->carried != VGPU_NEVER && m->h->now - w->changed_at >= POLICY_STAYS) {
		judge(m, vf, m->h->now, before);
		before = more(before, m->h->now - w->since);
	}
	before = more(w->bound == VGPU_NEVER ? 0 : w->bound, before == VGPU_NEVER ? 0 : before);
	w->carried = more(w->carried == VGPU_NEVER ? 0 : w->carried, before);
	if (w->bound == VGPU_NEVER) /* the promise begins here */
		count_from_now(m, w);
	w->bound = m->vfs[vf].v.bound.max_wait;
}

/* Notes that a turn or a pause that was decided before a change is carried out after it. Of several
 * changes, the one before which the longest wait was stated counts. */
static void decided_before(struct monitor *m, uint32_t vf)
{
	const struct watched *w = &m->vfs[vf];

	if (w->before.max_wait == VGPU_NEVER ||
	    (m->h->now < w->wait.old_until && w->before.max_wait <= w->wait.old))
		return;
	m->vfs[vf].wait.old = w->before.max_wait;
	m->vfs[vf].wait.old_until = m->h->now + w->before.max_wait;
}

void judge_wait(struct monitor *m, uint32_t vf)
{
	struct watched *w = &m->vfs[vf];

	if (m->core.policy->promises & VGPU_PROMISE_NO_STARVATION &&
	    w->v.bound.max_wait == VGPU_NEVER && w->v.share_denominator > 0)
		vhost_fail(m->h, "VF %u: %s promises that nobody starves, and states no wait", vf,
			   m->core.policy->name);
	if (w->v.ledger.debt_charged_ns != w->wait.debt_charged)
		w->wait.instalment = (double)(w->v.ledger.debt_charged_ns - w->wait.debt_charged);
	else if (w->v.ledger.debt_ns == 0 && w->ready && m->h->running == vf)
		w->wait.instalment = 0;
	w->wait.debt_charged = w->v.ledger.debt_charged_ns;
	if (m->changed)
		decided_before(m, vf);
	if (w->wait.on && m->changed)
		carry(m, vf);
	if (m->changed)
		w->wait.changed_at = m->h->now;
	if (m->h->running == vf) {
		if (w->wait.on)
			judge(m, vf, m->h->now, w->v.bound.max_wait);
		w->wait.on = false;
	} else if (!w->ready) {
		w->wait.on = false;
	} else if (!w->wait.on) {
		begin_wait(m, vf);
	}
}

/*
 * Judges the waits that go on at the end of the run. The VF on the engine may be beyond its grant,
 * and a timer beyond its deadline: the bounds do not yet include by how much. A reset, a window, or
 * the hang of a VF after its window, that is under way is not counted yet; nor is a command that
 * may never be answered.
 */
void wait_finish(struct monitor *m, uint32_t vf)
{
	bool apart_now = m->core.phase == VGPU_PHASE_RESET ||
			 (m->runner == VGPU_NO_VF &&
			  (m->core.phase == VGPU_PHASE_RUN || m->core.phase == VGPU_PHASE_IDLE));
	vgpu_nsec now = apart_now ? m->last : m->h->now, due = vgpu_core_deadline(m->h->core);

	if (1u << m->core.phase & COMMANDS)
		now = m->phase_since;
	now = due < now ? due : now;
	if (m->runner != VGPU_NO_VF && m->granted_until < now)
		now = m->granted_until;
	if (m->vfs[vf].wait.on && now > m->vfs[vf].wait.since)
		judge(m, vf, now, m->vfs[vf].v.bound.max_wait);
}
