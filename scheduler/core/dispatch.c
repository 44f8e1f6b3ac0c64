/* SPDX-License-Identifier: MIT */
/*
 * The open dispatch, from the policy's pick to its account. The grant's end is an instant: the core
 * issues IDLE before it, by the VF's own median preemption time, so that the engine is free when
 * the next VF is due. The time that a VF holds the engine beyond its grant is its overrun.
 */
#include <assert.h>

#include "private.h"

void dispatch_open(struct vgpu_core *core, const struct vgpu_pick *pick)
{
	assert(!core->d.open);
	core->d = (struct dispatch){
		.open = true,
		.orphan = false,
		.lone = false,
		.anew = false,
		.vf = pick->vf,
		.flags = pick->flags,
		.waker = VGPU_NO_VF,
		.early = VGPU_NO_VF,
		.reason = VGPU_END_SLICE,
		.not_before = pick->not_before,
		.granted = pick->slice,
		.late = pick->late,
		.idle_grace = pick->idle_grace,
		.start = 0,
		.end = 0,
		.preempt_at = 0,
		.natural_end = 0,
		.yield_at = VGPU_NEVER,
	};
	core->vfs[pick->vf].ledger.dispatches++;
}

void dispatch_adopt(struct vgpu_core *core, uint32_t index)
{
	core->d = (struct dispatch){.open = true,
				    .orphan = true,
				    .vf = index,
				    .waker = VGPU_NO_VF,
				    .early = VGPU_NO_VF,
				    .idle_grace = core->config.idle_grace,
				    .yield_at = VGPU_NEVER};
}

/* When to issue IDLE so that the engine is free at END; leaves the VF some time to run. */
static vgpu_nsec plan_preemption(const struct vgpu_core *core, vgpu_nsec start, vgpu_nsec end)
{
	const struct vf *vf = &core->vfs[core->d.vf];
	vgpu_nsec least = nsec_min((end - start) / 2, core->config.min_slice / 2);

	if (core->config.ask_at_end)
		return end;
	return nsec_max(nsec_past(end, nsec_past(vf->ledger.preempt_ns, core->d.late)),
			start + least);
}

void dispatch_begin(struct vgpu_core *core)
{
	struct dispatch *d = &core->d;
	struct vf *vf = &core->vfs[d->vf];
	vgpu_nsec waited;

	d->start = core->now;
	d->end = core->now + d->granted;
	d->natural_end = d->end;
	d->preempt_at = plan_preemption(core, d->start, d->end);
	if (vf->held)
		d->yield_at = core->now;
	else if (!vf->busy && !(d->flags & VGPU_PICK_HOLD))
		d->yield_at = nsec_add(core->now, d->idle_grace);
	waited = ledger_waits(core, vf);
	vf->ledger.wait_ns += waited;
	vf->ledger.wait_max_ns = nsec_max(vf->ledger.wait_max_ns, waited);
	vf->waiting_since = VGPU_NEVER;
	core_record(core, VGPU_REC_RUN, d->vf, 0, d->granted, d->not_before);
	if (core->policy->run)
		core->policy->run(core->memory, d->vf, core->now);
	/* Act on what has happened since the pick. */
	core->notes.waker = d->early;
	core->notes.anew = d->anew;
	core->notes.wanted = true;
}

/* Ends the running grant at instant AT, if that is earlier than planned. */
static void shorten(struct vgpu_core *core, enum vgpu_end reason, uint32_t waker, vgpu_nsec at)
{
	struct dispatch *d = &core->d;

	at = nsec_max(at, core->now);
	if (at >= d->preempt_at)
		return;
	d->preempt_at = at;
	d->reason = reason;
	d->waker = waker;
	d->end = nsec_min(d->end, nsec_add(at, core->vfs[d->vf].ledger.preempt_ns));
	d->granted = nsec_past(d->end, d->start);
}

void dispatch_cut(struct vgpu_core *core)
{
	const struct dispatch *d = &core->d;
	const struct notes *n = &core->notes;

	if (n->waker != VGPU_NO_VF)
		shorten(core, VGPU_END_WAKE_PREEMPT, n->waker, d->start + core->config.min_run);
	if (n->anew || (n->wanted && window_is_due(core)))
		shorten(core, VGPU_END_EXCLUSIVE, VGPU_NO_VF, d->start + core->config.min_slice);
	else if (n->wanted && d->lone && !(d->flags & VGPU_PICK_REMAINDER))
		shorten(core, VGPU_END_SLICE, VGPU_NO_VF,
			d->natural_end); /* budgets end as planned */
}

/* The time by which the policy would extend the grant, at most MOST. A policy older than version
 * 1.2 has no call for this; if it is work-conserving, it would pick a VF without competitors
 * again. */
static vgpu_nsec extension(struct vgpu_core *core, vgpu_nsec most)
{
	const struct dispatch *d = &core->d;

	if (core->policy->extend)
		return nsec_min(core->policy->extend(core->memory, d->vf,
						     nsec_max(d->end, core->now)),
				most);
	return core->n_awake <= 1 && core->policy->promises & VGPU_PROMISE_WORK_CONSERVING ? most
											   : 0;
}

bool dispatch_prolong(struct vgpu_core *core)
{
	struct dispatch *d = &core->d;
	vgpu_nsec left = nsec_past(core->config.lone_slice, d->granted), more, end, at;

	if (d->reason != VGPU_END_SLICE || d->flags & VGPU_PICK_DONATED ||
	    d->yield_at <= core->now || window_waits(core) || policy_host_change_is_due(core) ||
	    left == 0)
		return false;
	more = extension(core, left);
	end = nsec_add(nsec_max(d->end, core->now), more);
	at = plan_preemption(core, core->now, end);
	if (more == 0 || at <= core->now)
		return false;
	d->lone = core->n_awake <= 1;
	d->natural_end = d->end;
	d->end = end;
	d->granted = end - d->start;
	d->preempt_at = at;
	return true;
}

/*
 * What the VF pays for a late stop, in addition to the overrun: the time for which a VF that often
 * sleeps waited because of it. Such a VF may not have enough work to use the time that it is owed
 * afterwards; VFs that always have work would get that time, among them the one that stopped late.
 * Lateness of the host's timer is not fined, nor is a hang, which ends in a reset.
 */
static vgpu_nsec fine(const struct vgpu_core *core, uint32_t index, vgpu_nsec overrun)
{
	vgpu_nsec waited = 0;
	uint32_t i;

	overrun = nsec_min(overrun,
			   core->phase == VGPU_PHASE_IDLE ? core->now - core->phase_since : 0);
	if (overrun < LATE_LEAST)
		return 0;
	for (i = 0; i < core->config.max_vfs; i++) {
		const struct vf *vf = &core->vfs[i];

		if (i != index && vf->slept && core->now - vf->slept < SLEEPS_OFTEN)
			waited = nsec_max(waited, ledger_waits(core, vf));
	}
	return nsec_min(overrun, waited);
}

void dispatch_close(struct vgpu_core *core, enum vgpu_end reason)
{
	struct dispatch *d = &core->d;
	struct vf *vf = core_vf(core, d->vf);
	struct vgpu_usage usage = {
		.vf = d->vf,
		.reason = reason,
		.donated = d->flags & VGPU_PICK_DONATED,
		.start = d->start ? d->start : core->now,
		.end = core->now,
		.granted = d->granted,
		.used = 0,
		.overrun = 0,
		.charge = 0,
		.switched = 0,
	};
	vgpu_nsec more;

	if (!d->open)
		return;
	if (reason == VGPU_END_YIELD && vf->held) /* it may have work */
		usage.reason = reason = VGPU_END_REMOVED;
	if (d->start) {
		usage.used = core->now - d->start;
		usage.overrun = nsec_past(core->now, d->end);
	}
	d->open = false;
	policy_host_had_turn(core, d->vf);
	vf->ledger.ends[reason]++;
	core_record(core, VGPU_REC_STOP, d->vf, reason, usage.used, usage.overrun);
	if (d->orphan) {
		vf->ledger.forgiven_ns += vf->open_run;
		vf->open_run = 0;
	} else {
		usage.switched = vf->surcharge;
		more = reason == VGPU_END_HANG ? 0 : fine(core, d->vf, usage.overrun);
		usage.charge = ledger_close(core, vf, usage.donated, usage.overrun, more);
		usage.switched = nsec_min(usage.switched, usage.charge);
		policy_host_account(core, &usage);
	}
	if (reason == VGPU_END_YIELD) /* also if it has work again by now */
		vf->slept = core->now;
	vf->waiting_since = vf_is_runnable(vf) ? core->now : VGPU_NEVER;
	policy_host_sync(core, usage.vf);
	if (vf->held)
		policy_host_online(core, usage.vf, false);
}

void dispatch_learn(struct vgpu_core *core, uint32_t index, vgpu_nsec took)
{
	struct vf *vf = &core->vfs[index];
	vgpu_nsec *s = vf->stops, least, most;

	s[vf->n_stops++ % STOPS] = took;
	/* The least and the most of the first four cannot be the median of all five, so it is that
	 * of the other two and the fifth. */
	least = nsec_max(nsec_min(s[0], s[1]), nsec_min(s[2], s[3]));
	most = nsec_min(nsec_max(s[0], s[1]), nsec_max(s[2], s[3]));
	vf->ledger.preempt_ns =
		nsec_max(nsec_min(least, most), nsec_min(s[4], nsec_max(least, most)));
}
