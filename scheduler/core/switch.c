/* SPDX-License-Identifier: MIT */
/*
 * The world switch. Each phase waits for one answer of the device; a table says for which, for how
 * long, and what the context is when it has come. The end of a grant is an instant: IDLE is asked
 * for early, by the VF's own median preemption time, so that the engine is free when the next VF is
 * due. Whatever a VF holds the engine for beyond its grant is its overrun.
 */
#include <assert.h>

#include "private.h"

/* What a phase waits for. LOAD covers INIT, which a VF without a context gets instead. */
static const struct step {
	enum vgpu_command command;
	enum vgpu_context before, after;
} steps[VGPU_PHASE_COUNT] = {
	[VGPU_PHASE_LOAD] = {VGPU_CMD_LOAD, VGPU_CTX_SAVED, VGPU_CTX_LOADED},
	[VGPU_PHASE_START] = {VGPU_CMD_RUN, VGPU_CTX_LOADED, VGPU_CTX_RUNNING},
	[VGPU_PHASE_IDLE] = {VGPU_CMD_IDLE, VGPU_CTX_RUNNING, VGPU_CTX_IDLED},
	[VGPU_PHASE_SAVE] = {VGPU_CMD_SAVE, VGPU_CTX_IDLED, VGPU_CTX_SAVED},
	[VGPU_PHASE_DROP] = {VGPU_CMD_SHUTDOWN, VGPU_CTX_SAVED, VGPU_CTX_NONE},
};

static bool waits_for_device(enum vgpu_phase phase)
{
	return phase != VGPU_PHASE_PARKED && phase != VGPU_PHASE_READY && phase != VGPU_PHASE_RUN &&
	       phase != VGPU_PHASE_RESET;
}

void switch_enter(struct vgpu_core *core, enum vgpu_phase phase, vgpu_nsec deadline)
{
	core->phase = phase;
	core->phase_since = core->now;
	core->phase_deadline = deadline;
}

/* Issues the command of PHASE for VF and waits for its answer. */
static void issue(struct vgpu_core *core, enum vgpu_phase phase, uint32_t index, vgpu_nsec planned)
{
	struct vf *vf = core_vf(core, index);
	enum vgpu_command command = steps[phase].command;
	vgpu_nsec timeout;

	if (phase == VGPU_PHASE_LOAD && vf->context == VGPU_CTX_NONE)
		command = VGPU_CMD_INIT;
	else
		assert(vf->context == steps[phase].before);
	timeout = command == VGPU_CMD_IDLE ? core->config.grace
					   : core->config.command_timeout[command];
	switch_enter(core, phase, nsec_add(core->now, timeout));
	core_act(core, VGPU_AC_COMMAND, index, command);
	core->out->actions[core->out->n_actions - 1].planned = planned;
}

static void park(struct vgpu_core *core, vgpu_nsec until)
{
	assert(core->resident == VGPU_NO_VF);
	core->target = VGPU_NO_VF;
	if (core->phase != VGPU_PHASE_PARKED)
		core_record(core, VGPU_REC_PARK, VGPU_NO_VF, 0, until, 0);
	switch_enter(core, VGPU_PHASE_PARKED, until);
}

/* Ends the open dispatch: one account for each pick, whether it came to run or not. */
static void close_dispatch(struct vgpu_core *core, enum vgpu_end reason)
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
	};

	if (!d->open)
		return;
	if (d->start) {
		usage.used = core->now - d->start;
		usage.overrun = nsec_past(core->now, d->end);
	}
	d->open = false;
	govern_had_turn(core, d->vf);
	vf->ledger.ends[reason]++;
	core_record(core, VGPU_REC_STOP, d->vf, reason, usage.used, usage.overrun);
	if (d->orphan) {
		vf->ledger.forgiven_ns += vf->open_run;
		vf->open_run = 0;
	} else {
		usage.switched = vf->surcharge;
		usage.charge = ledger_close(core, vf, usage.donated, usage.overrun);
		usage.switched = nsec_min(usage.switched, usage.charge);
		govern_account(core, &usage);
	}
	vf->waiting_since = vf_is_runnable(vf) ? core->now : VGPU_NEVER;
	govern_sync(core, usage.vf);
	if (vf->held)
		govern_online(core, usage.vf, false);
}

/* VF leaves the engine's plans: whatever was open for it is closed. */
void switch_abandon(struct vgpu_core *core, uint32_t index, enum vgpu_end reason)
{
	if (core->d.open && core->d.vf == index)
		close_dispatch(core, reason);
	if (core->resident == index || core->target == index)
		core->in_window = false;
	if (core->target == index && core->resident != index)
		core->target = VGPU_NO_VF;
}

static void load_target(struct vgpu_core *core)
{
	issue(core, VGPU_PHASE_LOAD, core->target, 0);
	core->resident = core->target;
}

/* The engine goes to TARGET, by way of saving whoever is on it. */
static void go_to(struct vgpu_core *core, uint32_t target)
{
	core->target = target;
	if (core->resident != VGPU_NO_VF)
		issue(core, VGPU_PHASE_SAVE, core->resident, 0);
	else
		load_target(core);
}

/* Decides who is next, when nobody runs: a window that waits, else the policy's pick. */
static void switch_choose(struct vgpu_core *core)
{
	struct vgpu_pick pick;
	uint32_t index;

	assert(!core->d.open);
	govern_finish_change(core);
	index = window_pop(core);
	if (index != VGPU_NO_VF) {
		/* The time until its LOAD is nobody's window yet. */
		go_to(core, index);
		core->in_window = core->resident == index && core->phase == VGPU_PHASE_LOAD;
		return;
	}
	core->in_window = false;
	if (!govern_pick(core, &pick)) {
		if (core->resident != VGPU_NO_VF)
			go_to(core, VGPU_NO_VF);
		else
			park(core, pick.park_until);
		return;
	}
	core->d = (struct dispatch){
		.open = true,
		.vf = pick.vf,
		.flags = pick.flags,
		.waker = VGPU_NO_VF,
		.early = VGPU_NO_VF,
		.not_before = pick.not_before,
		.granted = pick.slice,
		.late = pick.late,
		.yield_at = VGPU_NEVER,
	};
	core_vf(core, pick.vf)->ledger.dispatches++;
	go_to(core, pick.vf);
}

/* The engine is free, from now: the cost of the switch begins to count. */
void switch_begin(struct vgpu_core *core)
{
	core->switch_cost = 0;
	core->switch_waker = VGPU_NO_VF;
	switch_choose(core);
}

/* The VF on the engine was reset: on to whom it was being saved for, or to a new choice. */
void switch_resume(struct vgpu_core *core)
{
	bool has_target = core->target != VGPU_NO_VF && core->target != core->resident;

	core->resident = VGPU_NO_VF;
	core->in_window = false;
	if (!has_target) {
		core->target = VGPU_NO_VF;
		switch_begin(core);
		return;
	}
	load_target(core);
	core->in_window = !core->d.open;
}

static void estimate_add(struct estimate *e, vgpu_nsec took)
{
	vgpu_nsec off;

	if (e->mean == 0)
		e->mean = took;
	off = took > e->mean ? took - e->mean : e->mean - took;
	e->mean = (e->mean * 7 + took) / 8;
	e->deviation = (e->deviation * 7 + off) / 8;
}

/*
 * What a world switch takes. Its halves are measured apart: where one VF parks the engine before
 * the next starts, the sum is what it would be without the pause.
 */
static void measure(struct vgpu_core *core, struct estimate *half, vgpu_nsec took)
{
	estimate_add(half, took);
	if (core->save_time.mean && core->start_time.mean) {
		vgpu_nsec mean = core->save_time.mean + core->start_time.mean;
		vgpu_nsec deviation = core->save_time.deviation + core->start_time.deviation;

		core->facts.switch_ns = mean + deviation / 2;
		/* RFC 6298's time-out; what was configured stays the least. */
		core->facts.switch_high_ns =
			nsec_max(mean + 4 * deviation, core->config.switch_nominal);
	}
}

static void start_target(struct vgpu_core *core)
{
	issue(core, VGPU_PHASE_START, core->target, core->d.open ? core->d.not_before : 0);
}

static void loaded(struct vgpu_core *core)
{
	core->load_took = core->now - core->phase_since;
	if (core->d.open && core->d.not_before > core->now)
		switch_enter(core, VGPU_PHASE_READY, core->d.not_before);
	else
		start_target(core);
}

/* When to ask for IDLE so that the engine is free at END, leaving the VF some time to run. */
static vgpu_nsec plan_preemption(const struct vgpu_core *core, vgpu_nsec start, vgpu_nsec end)
{
	const struct vf *vf = &core->vfs[core->d.vf];
	vgpu_nsec least = nsec_min((end - start) / 2, core->config.min_slice / 2);

	if (core->config.ask_at_end)
		return end;
	return nsec_max(nsec_past(end, nsec_past(vf->ledger.preempt_ns, core->d.late)),
			start + least);
}

/*
 * Takes over the VF that was found on the engine when scheduling began: no pick stands behind it,
 * so its time is forgiven, and it is asked to make room at once.
 */
void switch_adopt(struct vgpu_core *core)
{
	uint32_t index = core->resident;
	enum vgpu_context context = core_vf(core, index)->context;

	core->d = (struct dispatch){.open = true,
				    .orphan = true,
				    .vf = index,
				    .waker = VGPU_NO_VF,
				    .early = VGPU_NO_VF,
				    .yield_at = VGPU_NEVER};
	if (context == VGPU_CTX_LOADED) {
		core->target = index;
		start_target(core);
	} else {
		core->d.start = core->now;
		core->d.end = core->now;
		switch_enter(core, VGPU_PHASE_RUN, VGPU_NEVER);
		switch_preempt(core, VGPU_END_SLICE, 0);
	}
}

static void began_to_run(struct vgpu_core *core)
{
	struct dispatch *d = &core->d;
	struct vf *vf = core_vf(core, core->resident);
	vgpu_nsec took = core->now - core->phase_since;

	core->target = VGPU_NO_VF;
	switch_enter(core, VGPU_PHASE_RUN, VGPU_NEVER);
	if (core->in_window) {
		window_opened(core);
		return;
	}
	if (d->orphan) {
		switch_adopt(core);
		return;
	}
	core->ledger.switches++;
	measure(core, &core->start_time, core->load_took + took);
	if (core->switch_waker == d->vf)
		ledger_charge_switch(core, d->vf, core->switch_cost);
	core->switch_waker = VGPU_NO_VF;
	d->start = core->now;
	d->end = core->now + d->granted;
	d->natural_end = d->end;
	d->preempt_at = plan_preemption(core, d->start, d->end);
	if (vf->held)
		d->yield_at = core->now;
	else if (!vf->busy && !(d->flags & VGPU_PICK_HOLD))
		d->yield_at = core->now + core->config.idle_grace;
	if (vf->waiting_since != VGPU_NEVER) {
		vgpu_nsec waited = core->now - vf->waiting_since;

		vf->ledger.wait_ns += waited;
		vf->ledger.wait_max_ns = nsec_max(vf->ledger.wait_max_ns, waited);
		vf->waiting_since = VGPU_NEVER;
	}
	core_record(core, VGPU_REC_RUN, d->vf, 0, d->granted, d->not_before);
	if (core->policy->run)
		core->policy->run(core->memory, d->vf, core->now);
	if (d->early != VGPU_NO_VF)
		switch_cut(core, VGPU_END_WAKE_PREEMPT, d->early, d->start + core->config.min_run);
	if (window_waits(core) || govern_change_is_due(core))
		switch_others_want(core);
}

void switch_preempt(struct vgpu_core *core, enum vgpu_end reason, vgpu_nsec planned)
{
	assert(core->phase == VGPU_PHASE_RUN);
	core->d.reason = reason;
	core_record(core, VGPU_REC_PREEMPT, core->resident, reason, planned, 0);
	issue(core, VGPU_PHASE_IDLE, core->resident, planned);
}

/* Ends the grant that runs at instant AT, if that is earlier than planned. */
void switch_cut(struct vgpu_core *core, enum vgpu_end reason, uint32_t waker, vgpu_nsec at)
{
	struct dispatch *d = &core->d;

	if (core->phase != VGPU_PHASE_RUN || !d->open || at >= d->preempt_at)
		return;
	at = nsec_max(at, core->now);
	d->preempt_at = at;
	d->reason = reason;
	d->waker = waker;
	d->end = nsec_min(d->end, nsec_add(at, core_vf(core, d->vf)->ledger.preempt_ns));
	d->granted = nsec_past(d->end, d->start);
}

/* Somebody else has work: a grant that was prolonged for want of others ends. */
void switch_others_want(struct vgpu_core *core)
{
	struct dispatch *d = &core->d;

	if (core->phase == VGPU_PHASE_PARKED && core->started) {
		switch_begin(core);
		return;
	}
	if (core->phase != VGPU_PHASE_RUN || !d->open)
		return;
	if (window_waits(core) || govern_change_is_due(core))
		switch_cut(core, VGPU_END_EXCLUSIVE, VGPU_NO_VF,
			   nsec_max(core->now, d->start + core->config.min_slice));
	else if (d->lone && !(d->flags & VGPU_PICK_REMAINDER)) /* a budget ends as it was planned */
		switch_cut(core, VGPU_END_SLICE, VGPU_NO_VF, nsec_max(core->now, d->natural_end));
}

/* For how much longer the policy would let the VF run. One that cannot say so (it is older than
 * version 1.2), but parks only if nobody has work, would pick a lone VF again. */
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

/*
 * The policy would pick the same VF again: no use in taking the engine away at the end of the
 * slice. A VF whose grant is extended like that is asked for a sign of life after `lone_slice`.
 */
static bool prolong(struct vgpu_core *core)
{
	struct dispatch *d = &core->d;
	vgpu_nsec left = nsec_past(core->config.lone_slice, d->granted), more, end, at;

	if (d->reason != VGPU_END_SLICE || d->flags & VGPU_PICK_DONATED ||
	    d->yield_at <= core->now || window_waits(core) || govern_change_is_due(core) ||
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
 * How long the VF takes to stop: the median of its last five times. One late stop in a hundred must
 * not end its next slices early, a VF that is always late is known in three.
 */
static void learn_preemption(struct vf *vf, vgpu_nsec took)
{
	vgpu_nsec sorted[STOPS];
	uint32_t n, i, j;

	vf->stops[vf->n_stops++ % STOPS] = took;
	n = vf->n_stops < STOPS ? vf->n_stops : STOPS;
	for (i = 0; i < n; i++) {
		for (j = i; j > 0 && sorted[j - 1] > vf->stops[i]; j--)
			sorted[j] = sorted[j - 1];
		sorted[j] = vf->stops[i];
	}
	vf->ledger.preempt_ns = sorted[n / 2];
}

static void preempted(struct vgpu_core *core)
{
	uint32_t index = core->resident, waker = core->d.waker;
	struct vf *vf = core_vf(core, index);
	vgpu_nsec took = core->now - core->phase_since;
	enum vgpu_end reason = core->d.reason;

	learn_preemption(vf, took);
	if (core->d.open)
		close_dispatch(core, reason);
	if (core->in_window) {
		core->in_window = false;
		if (vf->window == VGPU_WINDOW_INIT) {
			core_set_state(core, index, VGPU_VF_ACTIVE);
			govern_online(core, index, true);
			govern_sync(core, index);
		}
	}
	core->switch_cost = 0;
	core->switch_waker = reason == VGPU_END_WAKE_PREEMPT ? waker : VGPU_NO_VF;
	if (vf->state == VGPU_VF_EXCLUSIVE && !vf->queued)
		go_to(core, VGPU_NO_VF); /* its last window: save, then drop */
	else
		switch_choose(core);
}

static void saved(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);
	vgpu_nsec took = core->now - core->phase_since;

	/* What exceeds twice the usual is the size of this VF's own state. */
	if (core->save_time.mean && took > 2 * core->save_time.mean)
		ledger_charge_switch(core, index, took - 2 * core->save_time.mean);
	measure(core, &core->save_time, took);
	if (vf->state == VGPU_VF_EXCLUSIVE && !vf->queued && core->target == VGPU_NO_VF) {
		issue(core, VGPU_PHASE_DROP, index, 0);
		return;
	}
	core->resident = VGPU_NO_VF;
	if (core->target == VGPU_NO_VF) {
		/* It was to be parked; but somebody may have come meanwhile. */
		switch_choose(core);
		return;
	}
	load_target(core);
	core->in_window = !core->d.open && core->phase == VGPU_PHASE_LOAD;
}

static void dropped(struct vgpu_core *core, uint32_t index)
{
	core->resident = VGPU_NO_VF;
	core_vf(core, index)->busy = false;
	govern_online(core, index, false);
	ladder_scrub(core, index, VGPU_VF_AVAIL);
	switch_choose(core);
}

void switch_done(struct vgpu_core *core, uint32_t index, enum vgpu_command command, int64_t status)
{
	struct vf *vf = core_vf(core, index);
	enum vgpu_phase phase = core->phase;
	bool init = phase == VGPU_PHASE_LOAD && vf->context == VGPU_CTX_NONE;

	if (!waits_for_device(phase) || core->resident != index ||
	    command != (init ? VGPU_CMD_INIT : steps[phase].command)) {
		core->ledger.stale_answers++;
		return;
	}
	core_record(core, VGPU_REC_COMMAND, index, command, core->now - core->phase_since,
		    (uint64_t)status);
	if (status != 0) {
		ladder_hang(core, index, core->now - core->phase_since);
		return;
	}
	vf->context = steps[phase].after;
	switch (phase) {
	case VGPU_PHASE_LOAD:
		loaded(core);
		return;
	case VGPU_PHASE_START:
		began_to_run(core);
		return;
	case VGPU_PHASE_IDLE:
		preempted(core);
		return;
	case VGPU_PHASE_SAVE:
		saved(core, index);
		return;
	default:
		dropped(core, index);
		return;
	}
}

static void run_timer(struct vgpu_core *core)
{
	struct dispatch *d = &core->d;

	if (core->in_window) {
		if (core->now >= core->window_end)
			window_timed_out(core);
		return;
	}
	if (!d->open || !core->started)
		return;
	if (core->now >= d->preempt_at) {
		if (!prolong(core))
			switch_preempt(core, d->reason, d->preempt_at);
	} else if (core->now >= d->yield_at) {
		d->end = nsec_min(d->end, core->now + core_vf(core, d->vf)->ledger.preempt_ns);
		switch_preempt(core, VGPU_END_YIELD, d->yield_at);
	}
}

void switch_timer(struct vgpu_core *core)
{
	if (core->phase == VGPU_PHASE_RUN) {
		run_timer(core);
		return;
	}
	if (core->now < core->phase_deadline)
		return;
	if (core->phase == VGPU_PHASE_PARKED && core->started)
		switch_begin(core);
	else if (core->phase == VGPU_PHASE_READY)
		start_target(core);
	else if (waits_for_device(core->phase))
		ladder_hang(core, core->resident, core->now - core->phase_since);
}
