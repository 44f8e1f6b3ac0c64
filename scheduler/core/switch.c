/* SPDX-License-Identifier: MIT */
/*
 * The world switch. Each phase waits for one answer of the device; a table gives the command, and
 * the context before and after it. An answer is noted, or leads to the next command of the same
 * switch; switch_settle() decides at the end of the step where the engine goes.
 */
#include <assert.h>

#include "private.h"

/* What a phase waits for. LOAD includes INIT, which the core issues for a VF without a context. */
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

/* The command of PHASE for a VF. */
static enum vgpu_command command_of(const struct vgpu_core *core, enum vgpu_phase phase,
				    uint32_t index)
{
	if (phase == VGPU_PHASE_LOAD && core->vfs[index].context == VGPU_CTX_NONE)
		return VGPU_CMD_INIT;
	return steps[phase].command;
}

static void act(struct vgpu_core *core, enum vgpu_command command, uint32_t index,
		vgpu_nsec planned)
{
	core_act(core, VGPU_AC_COMMAND, index, command);
	core->out->actions[core->out->n_actions - 1].planned = planned;
}

/* Waits for the answer to the command of PHASE for VF. Returns whether it has issued the command,
 * which may have been issued ahead with the one before it. */
static bool issue(struct vgpu_core *core, enum vgpu_phase phase, uint32_t index, vgpu_nsec planned)
{
	enum vgpu_command command = command_of(core, phase, index);
	vgpu_nsec timeout = command == VGPU_CMD_IDLE ? core->config.grace
						     : core->config.command_timeout[command];

	assert(command == VGPU_CMD_INIT || core->vfs[index].context == steps[phase].before);
	core_enter(core, phase, nsec_add(core->now, timeout));
	if (core->ahead > 0) {
		core->ahead--;
		return false;
	}
	act(core, command, index, planned);
	return true;
}

/* Issues the commands after PHASE of the switch to the target, as far as they are certain. */
static void issue_ahead(struct vgpu_core *core, enum vgpu_phase phase)
{
	const struct dispatch *d = &core->d;

	if (!core->config.chains || core->target == VGPU_NO_VF)
		return;
	if (phase == VGPU_PHASE_SAVE) {
		act(core, command_of(core, VGPU_PHASE_LOAD, core->target), core->target, 0);
		core->ahead++;
	}
	if (!d->open || d->not_before <= core->now) {
		act(core, VGPU_CMD_RUN, core->target, d->open ? d->not_before : 0);
		core->ahead++;
	}
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
 * Measures a world switch. Its halves are measured apart, so that a pause between them, when the
 * engine is parked, does not count.
 */
static void measure(struct vgpu_core *core, struct estimate *half, vgpu_nsec took)
{
	estimate_add(half, took);
	if (core->save_time.mean && core->start_time.mean) {
		vgpu_nsec mean = core->save_time.mean + core->start_time.mean;
		vgpu_nsec deviation = core->save_time.deviation + core->start_time.deviation;

		core->facts.switch_ns = mean + deviation / 2;
		/* RFC 6298's time-out, but at least the configured value. */
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
		core_enter(core, VGPU_PHASE_READY, core->d.not_before);
	else
		start_target(core);
}

static void preempt(struct vgpu_core *core, enum vgpu_end reason, vgpu_nsec planned)
{
	assert(core->phase == VGPU_PHASE_RUN);
	core->d.reason = reason;
	core->d.kept_end = reason == VGPU_END_YIELD ? core->d.kept_end : 0;
	core_record(core, VGPU_REC_PREEMPT, core->resident, reason, planned, 0);
	issue(core, VGPU_PHASE_IDLE, core->resident, planned);
}

/* Returns whether no other VF needs the engine. */
static bool is_alone(struct vgpu_core *core)
{
	const struct vf *vf = core_vf(core, core->resident);

	return core->started && !vf->held && core->n_awake == (vf->awake ? 1 : 0) &&
	       !window_waits(core) && !policy_host_change_is_due(core);
}

/* The VF has run out of work. On some GPUs, work that it has got since can only be killed: the VF
 * continues if no other VF waits. */
static void yield(struct vgpu_core *core)
{
	struct dispatch *d = &core->d;

	d->kept_end = is_alone(core) ? d->end : 0;
	d->end = nsec_min(d->end, core->now + core->vfs[d->vf].ledger.preempt_ns);
	preempt(core, VGPU_END_YIELD, d->yield_at);
	core->out->actions[core->out->n_actions - 1].unless_busy = d->kept_end != 0;
}

/* The VF that was to yield has work: its grant continues as if it had never run out. */
static void has_work(struct vgpu_core *core)
{
	struct dispatch *d = &core->d;

	core_enter(core, VGPU_PHASE_RUN, VGPU_NEVER);
	d->end = d->kept_end;
	d->reason = VGPU_END_SLICE;
	d->yield_at = core->vfs[d->vf].busy ? VGPU_NEVER : nsec_add(core->now, d->idle_grace);
	if (is_alone(core))
		return;
	d->yield_at = core->now; /* another VF has begun to wait meanwhile */
	yield(core);
}

/* The adopted VF runs: preempts it at once. */
static void make_room(struct vgpu_core *core)
{
	core->d.start = core->now;
	core->d.end = core->now;
	core_enter(core, VGPU_PHASE_RUN, VGPU_NEVER);
	preempt(core, VGPU_END_SLICE, 0);
}

static void began_to_run(struct vgpu_core *core)
{
	vgpu_nsec took = core->now - core->phase_since;

	core->target = VGPU_NO_VF;
	if (core->d.open && core->d.orphan) {
		make_room(core);
		return;
	}
	core_enter(core, VGPU_PHASE_RUN, VGPU_NEVER);
	if (core->in_window) {
		window_opened(core);
		return;
	}
	core->ledger.switches++;
	measure(core, &core->start_time, core->load_took + took);
	if (core->switch_waker == core->d.vf)
		ledger_charge_switch(core, core->d.vf, core->switch_cost);
	core->switch_waker = VGPU_NO_VF;
	dispatch_begin(core);
}

/* Returns whether the VF's last window is over, so that its context is saved, then dropped. */
static bool is_leaving(const struct vf *vf)
{
	return vf->state == VGPU_VF_EXCLUSIVE && !vf->queued;
}

static void preempted(struct vgpu_core *core)
{
	uint32_t index = core->resident, waker = core->d.waker;
	struct vf *vf = core_vf(core, index);
	vgpu_nsec took = core->now - core->phase_since;
	enum vgpu_end reason = core->d.reason;

	dispatch_learn(core, index, took);
	dispatch_close(core, reason);
	if (core->in_window) {
		core->in_window = false;
		if (vf->window == VGPU_WINDOW_INIT) {
			core_set_state(core, index, VGPU_VF_ACTIVE);
			policy_host_online(core, index, true);
			policy_host_sync(core, index);
		}
	}
	core->switch_cost = 0;
	core->switch_waker = reason == VGPU_END_WAKE_PREEMPT ? waker : VGPU_NO_VF;
	core->notes.go_on = true;
}

static void saved(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);
	vgpu_nsec took = core->now - core->phase_since;

	/* Time beyond twice the usual comes from the size of this VF's state. */
	if (core->save_time.mean && took > 2 * core->save_time.mean)
		ledger_charge_switch(core, index, took - 2 * core->save_time.mean);
	measure(core, &core->save_time, took);
	if (is_leaving(vf) && core->target == VGPU_NO_VF) {
		issue(core, VGPU_PHASE_DROP, index, 0);
		return;
	}
	/* If the engine was to be parked, another VF may have got work meanwhile. */
	core->resident = VGPU_NO_VF;
	if (vf->reset_comes)
		ladder_catch_up(core, index);
	core->notes.go_on = true;
}

static void dropped(struct vgpu_core *core, uint32_t index)
{
	core->resident = VGPU_NO_VF;
	core_vf(core, index)->busy = false;
	policy_host_online(core, index, false);
	ladder_scrub(core, index);
	core->notes.go_on = true;
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
	if (status == VGPU_HAS_WORK && phase == VGPU_PHASE_IDLE && core->d.kept_end) {
		has_work(core);
		return;
	}
	core_record(core, VGPU_REC_COMMAND, index, command, core->now - core->phase_since,
		    (uint64_t)status);
	if (status != 0) {
		ladder_hang(core);
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

void switch_timer(struct vgpu_core *core)
{
	bool due = core->now >= core->phase_deadline;

	if (core->phase == VGPU_PHASE_RUN && !core->in_window)
		core->notes.timer = true;
	else if (core->phase == VGPU_PHASE_RUN && core->now >= core->window_end)
		ladder_overstay(core, core->resident, is_alone(core));
	else if (core->phase == VGPU_PHASE_PARKED)
		core->notes.go_on |= due && core->started;
	else if (core->phase == VGPU_PHASE_READY && due)
		start_target(core);
	else if (waits_for_device(core->phase) && due)
		ladder_hang(core);
}

void switch_release(struct vgpu_core *core)
{
	window_closed(core, false);
	core_act(core, VGPU_AC_ACCESS, core->resident,
		 core->vfs[core->resident].window == VGPU_WINDOW_INIT ? VGPU_ACCESS_WORK
								      : VGPU_ACCESS_NONE);
	preempt(core, VGPU_END_EXCLUSIVE, core->now);
}

static void park(struct vgpu_core *core, vgpu_nsec until)
{
	assert(core->resident == VGPU_NO_VF);
	if (core->phase != VGPU_PHASE_PARKED)
		core_record(core, VGPU_REC_PARK, VGPU_NO_VF, 0, until, 0);
	core_enter(core, VGPU_PHASE_PARKED, until);
}

/* Goes to the target: saves the VF on the engine first, if there is one. A window begins with its
 * LOAD; the time until then is charged to no VF. */
static void go_to_target(struct vgpu_core *core)
{
	if (core->resident != VGPU_NO_VF) {
		if (issue(core, VGPU_PHASE_SAVE, core->resident, 0))
			issue_ahead(core, VGPU_PHASE_SAVE);
		return;
	}
	if (issue(core, VGPU_PHASE_LOAD, core->target, 0))
		issue_ahead(core, VGPU_PHASE_LOAD);
	core->resident = core->target;
	core->in_window = !core->d.open;
	if (core->vfs[core->resident].reset_comes)
		ladder_catch_up(core, core->resident);
}

/* Chooses the next VF: an exclusive window that waits, else the policy's pick. False: none, park
 * until pick->park_until. */
static bool choose(struct vgpu_core *core, struct vgpu_pick *pick)
{
	if (policy_host_change_is_due(core))
		policy_host_finish_change(core);
	core->target = window_pop(core);
	if (core->target != VGPU_NO_VF)
		return true;
	if (!policy_host_pick(core, pick))
		return false;
	dispatch_open(core, pick);
	core->target = pick->vf;
	return true;
}

/*
 * Adopts the VF that was on the engine when scheduling began. The policy did not pick it, so its
 * time is not charged, and it is preempted at once.
 */
static void adopt(struct vgpu_core *core)
{
	dispatch_adopt(core, core->resident);
	if (core->vfs[core->resident].context == VGPU_CTX_LOADED) {
		core->target = core->resident;
		start_target(core);
	} else {
		make_room(core);
	}
}

/* While no VF runs: goes to the target, or chooses one. Out of line: most steps end without this
 * and need not save registers for it. */
static __attribute__((noinline)) void go_on(struct vgpu_core *core)
{
	const struct vf *on = core_vf(core, core->resident);
	struct vgpu_pick pick;

	core->in_window = false;
	if (on && on->context != VGPU_CTX_IDLED) {
		adopt(core);
		return;
	}
	if (core->target == VGPU_NO_VF && !(on && is_leaving(on))) {
		/* The engine is free from now on: the cost of the switch counts from here. */
		if (core->phase == VGPU_PHASE_PARKED || core->phase == VGPU_PHASE_RESET) {
			core->switch_cost = 0;
			core->switch_waker = VGPU_NO_VF;
		}
		if (!choose(core, &pick) && !on) {
			park(core, pick.park_until);
			return;
		}
	}
	go_to_target(core);
}

/* Ends the running grant if it is due: prolongs it if the policy would pick the same VF again, else
 * preempts the VF. */
static void end_grant(struct vgpu_core *core)
{
	struct dispatch *d = &core->d;

	if (core->now >= d->preempt_at) {
		if (!dispatch_prolong(core))
			preempt(core, d->reason, d->preempt_at);
	} else if (core->now >= d->yield_at) {
		yield(core);
	}
}

void switch_settle(struct vgpu_core *core)
{
	const struct notes *n = &core->notes;
	bool waits = core->phase == VGPU_PHASE_PARKED && core->started;

	if (n->go_on || (waits && (n->wanted || n->anew))) {
		go_on(core);
		return;
	}
	if (core->phase != VGPU_PHASE_RUN || !core->d.open)
		return;
	dispatch_cut(core);
	if (n->timer && core->started)
		end_grant(core);
}
