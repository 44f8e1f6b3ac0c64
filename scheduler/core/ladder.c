/* SPDX-License-Identifier: MIT */
/*
 * Resets, and how they escalate: the VF's queues, the function, the whole GPU; each level only
 * where the GPU supports it, the last only where the operator allows it. A VF whose hang made
 * others wait is in back-off for 1 s, after a second hang within a minute for 2 s; the third
 * quarantines it. A VF whose work ended in a fault, or that kept a window for which no other VF
 * waited, is in back-off for 1, 2, 4, then 8 s for each further one within a minute, and never
 * quarantined.
 * While a VF that is not on the engine is reset, the others run on.
 */
#include <assert.h>

#include "private.h"

/* Sets the instant at which ladder_timer() has something to do. */
static void update_deadline(struct vgpu_core *core)
{
	uint32_t i;

	core->aux_deadline = VGPU_NEVER;
	for (i = 0; i < core->config.max_vfs; i++) {
		const struct vf *vf = &core->vfs[i];

		if (vf->state == VGPU_VF_BACKOFF)
			core->aux_deadline = nsec_min(core->aux_deadline, vf->backoff_until);
		if (vf->reset.in_flight)
			core->aux_deadline = nsec_min(core->aux_deadline, vf->reset.deadline);
		core->aux_deadline = nsec_min(core->aux_deadline, vf->reset.retry_at);
	}
}

static void issue(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);

	vgpu_reset_begin(&vf->reset, core->now,
			 nsec_add(core->now, core->config.reset_timeout[vf->reset.level]));
	vf->ledger.resets++;
	core_record(core, VGPU_REC_RESET, index, vf->reset.level, 0, 0);
	core_act(core, VGPU_AC_RESET, index, vf->reset.level);
	update_deadline(core);
}

static bool can_reset(const struct vgpu_core *core, enum vgpu_reset_level level)
{
	return (core->config.reset_levels >> level & 1) &&
	       (level != VGPU_RESET_GPU || core->config.gpu_reset);
}

/* The lowest level from LEVEL upwards that the GPU supports and the operator allows. */
static enum vgpu_reset_level next_level(const struct vgpu_core *core, unsigned level)
{
	while (level < VGPU_RESET_COUNT && !can_reset(core, (enum vgpu_reset_level)level))
		level++;
	return (enum vgpu_reset_level)level;
}

bool ladder_is_resetting(const struct vf *vf)
{
	return vgpu_reset_is_due(&vf->reset);
}

/* Removes the VF from all plans: its window request is cancelled, its dispatch is closed. */
static void leave_engine(struct vgpu_core *core, uint32_t index, enum vgpu_end reason)
{
	window_cancel(core, index);
	if (core->d.open && core->d.vf == index)
		dispatch_close(core, reason);
	if (core->resident == index || core->target == index)
		core->in_window = false;
	if (core->target == index && core->resident != index)
		core->target = VGPU_NO_VF;
}

/* The switch in progress has failed: the commands issued ahead are void. */
static void drop_ahead(struct vgpu_core *core)
{
	if (core->ahead == 0)
		return;
	core->ahead = 0;
	if (core->target != VGPU_NO_VF && core->target != core->resident &&
	    core->vfs[core->target].reset_comes)
		ladder_catch_up(core, core->target);
}

/* Returns whether a reset must wait, because the GPU executes the chained commands on its own: it
 * may already be loading the VF, or saving it, and running another one. A VF whose command has
 * failed, or whose guest has reset it, is not being saved any more. */
static bool must_wait(const struct vgpu_core *core, uint32_t index)
{
	if (core->ahead == 0)
		return false;
	if (core->resident != index)
		return core->target == index;
	return core->phase == VGPU_PHASE_SAVE && core->vfs[index].context == VGPU_CTX_IDLED;
}

void ladder_reset(struct vgpu_core *core, uint32_t index, enum vgpu_blame blame)
{
	struct vf *vf = core_vf(core, index);
	bool on_engine = core->resident == index;

	if (ladder_is_resetting(vf))
		return;
	if (must_wait(core, index)) {
		vf->reset_comes = true;
		if (vf->reset_blame < blame)
			vf->reset_blame = blame;
		return;
	}
	vf->reset_comes = false;
	vf->reset_blame = VGPU_BLAME_NONE;
	leave_engine(core, index, blame ? VGPU_END_HANG : VGPU_END_REMOVED);
	vf->context = VGPU_CTX_BROKEN;
	vf->busy = false;
	vf->held = false;
	policy_host_online(core, index, false);
	core_act(core, VGPU_AC_ACCESS, index, VGPU_ACCESS_NONE);
	core_act(core, VGPU_AC_NOTICE, index, VGPU_NOTICE_RESET);
	core_set_state(core, index, VGPU_VF_SCRUBBING);
	vf->reset = (struct vgpu_reset){
		.blame = blame,
		.level = next_level(core, VGPU_RESET_ENGINE),
		.retry_at = VGPU_NEVER,
	};
	/* vgpud refuses to open a GPU that cannot reset a VF. */
	assert(vf->reset.level < VGPU_RESET_COUNT);
	if (on_engine)
		core_enter(core, VGPU_PHASE_RESET, VGPU_NEVER);
	issue(core, index);
	if (on_engine)
		drop_ahead(core);
}

void ladder_catch_up(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);

	ladder_reset(core, index, vf->reset_blame);
}

static void hang(struct vgpu_core *core, uint32_t index, enum vgpu_blame blame, uint64_t late)
{
	core_vf(core, index)->ledger.hangs++;
	core_record(core, VGPU_REC_HANG, index, core->phase, late, 0);
	ladder_reset(core, index, blame);
}

void ladder_hang(struct vgpu_core *core)
{
	core_vf(core, core->resident)->context = VGPU_CTX_BROKEN;
	hang(core, core->resident, VGPU_BLAME_HANG, core->now - core->phase_since);
}

void ladder_fault(struct vgpu_core *core, uint32_t index, bool stuck)
{
	struct vf *vf = core_vf(core, index);
	bool is_noticed = vf->context == VGPU_CTX_BROKEN || vf->context == VGPU_CTX_NONE;
	bool waits = vf->reset_comes && vf->reset_blame;
	enum vgpu_blame blame = stuck ? VGPU_BLAME_HANG : VGPU_BLAME_FAULT;

	if (stuck && !is_noticed && core->resident == index)
		vf->context = VGPU_CTX_BROKEN; /* the VF cannot complete a SAVE any more */
	if (is_noticed || (waits && vf->context != VGPU_CTX_BROKEN))
		return;
	if (waits)
		ladder_reset(core, index, blame > vf->reset_blame ? blame : vf->reset_blame);
	else
		hang(core, index, blame, 0);
}

void ladder_overstay(struct vgpu_core *core, uint32_t index, bool alone)
{
	struct vf *vf = core_vf(core, index);
	bool again = !alone && history_exceeds(&vf->window_timeouts, WINDOW_TIMEOUTS - 1,
					       WINDOW_TIMEOUT_SPAN, core->now);

	vf->ledger.window_timeouts++;
	window_closed(core, true);
	ladder_reset(core, index, alone ? VGPU_BLAME_FAULT : VGPU_BLAME_HANG);
	vf->quarantined |= again;
}

/* Puts a VF that is to blame for its reset into back-off or quarantine. */
static void punish(struct vgpu_core *core, struct vf *vf, enum vgpu_blame blame)
{
	const bool hung = blame == VGPU_BLAME_HANG;
	struct history *h = hung ? &vf->strikes : &vf->faults;
	vgpu_nsec pause = BACKOFF_FIRST;
	uint32_t i;

	if (blame == VGPU_BLAME_NONE)
		return;
	if (history_exceeds(h, hung ? STRIKES - 1 : FAULTS, STRIKE_SPAN, core->now) && hung) {
		vf->quarantined = true;
		return;
	}
	/* Doubles once for each remembered fault: to 8 s after a fault. */
	for (i = 1; i < h->n; i++)
		pause *= 2;
	vf->backoff_until = nsec_max(vf->backoff_until, core->now + pause);
}

void ladder_forgive(struct vf *vf)
{
	vf->strikes.n = 0;
	vf->resets.n = 0;
	vf->faults.n = 0;
	vf->window_tokens_at = 0;
	vf->window_timeouts.n = 0;
	vf->quarantined = false;
	vf->backoff_until = 0;
}

static enum vgpu_vf_state sentence(const struct vgpu_core *core, const struct vf *vf)
{
	if (vf->quarantined)
		return VGPU_VF_QUARANTINED;
	return vf->backoff_until > core->now ? VGPU_VF_BACKOFF : VGPU_VF_AVAIL;
}

static void reset_succeeded(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);

	vf->context = VGPU_CTX_NONE;
	punish(core, vf, vf->reset.blame);
	core_act(core, VGPU_AC_NOTICE, index, VGPU_NOTICE_RESET_DONE);
	ladder_scrub(core, index);
	if (core->resident != index)
		return;
	/* Load the target of the switch that the reset interrupted, or choose one. */
	core->resident = VGPU_NO_VF;
	core->target = core->target == index ? VGPU_NO_VF : core->target;
	core->in_window = false;
	core->notes.go_on = true;
}

/* All contexts and all memory are lost: each VF starts again, without penalty. A VF with a pending
 * reset for its own fault still gets its penalty. */
static void gpu_was_reset(struct vgpu_core *core, uint32_t culprit)
{
	uint32_t i;

	for (i = 0; i < core->config.max_vfs; i++) {
		struct vf *vf = &core->vfs[i];

		if (vf->state == VGPU_VF_ABSENT || i == culprit)
			continue;
		leave_engine(core, i, VGPU_END_REMOVED);
		vf->busy = false;
		vf->held = false;
		policy_host_online(core, i, false);
		vf->context = VGPU_CTX_NONE;
		if (ladder_is_resetting(vf))
			punish(core, vf, vf->reset.blame);
		vf->reset = VGPU_RESET_NONE;
		core_act(core, VGPU_AC_ACCESS, i, VGPU_ACCESS_NONE);
		core_act(core, VGPU_AC_NOTICE, i, VGPU_NOTICE_RESET);
		core_act(core, VGPU_AC_NOTICE, i, VGPU_NOTICE_RESET_DONE);
		ladder_scrub(core, i);
	}
}

static void reset_failed(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);
	enum vgpu_reset_level higher = next_level(core, vf->reset.level + 1);
	bool on_engine = core->resident == index;

	vgpu_reset_failed(&vf->reset, core->now);
	/* Reset the whole GPU only if this VF blocks the engine. */
	if (higher < VGPU_RESET_COUNT && (on_engine || higher != VGPU_RESET_GPU)) {
		vf->reset.level = higher;
		issue(core, index);
		return;
	}
	update_deadline(core);
}

void ladder_reset_done(struct vgpu_core *core, uint32_t index, uint32_t level, int64_t status)
{
	struct vf *vf = core_vf(core, index);

	if (!vf->reset.in_flight || vf->reset.level != level) {
		core->ledger.stale_answers++;
		return;
	}
	vf->reset.in_flight = false;
	core_record(core, VGPU_REC_RESET_DONE, index, level, core->now - vf->reset.started,
		    (uint64_t)status);
	update_deadline(core);
	if (status != 0) {
		reset_failed(core, index);
		return;
	}
	if (level == VGPU_RESET_GPU)
		gpu_was_reset(core, index);
	reset_succeeded(core, index);
}

void ladder_scrub(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);

	vf->scrubs++;
	core_set_state(core, index, VGPU_VF_SCRUBBING);
	core_act(core, VGPU_AC_SCRUB, index, 0);
}

void ladder_scrubbed(struct vgpu_core *core, uint32_t index, int64_t status)
{
	struct vf *vf = core_vf(core, index);

	if (vf->scrubs == 0) {
		core->ledger.stale_answers++;
		return;
	}
	vf->scrubs--;
	if (vf->scrubs > 0 || vf->state != VGPU_VF_SCRUBBING || ladder_is_resetting(vf))
		return;
	core_set_state(core, index, status == 0 ? sentence(core, vf) : VGPU_VF_FAILED);
	update_deadline(core);
	window_retry(core, index);
}

/* Ends back-offs, and handles time-outs and retries of resets. */
void ladder_timer(struct vgpu_core *core)
{
	uint32_t i;

	if (core->now < core->aux_deadline)
		return;
	for (i = 0; i < core->config.max_vfs; i++) {
		struct vf *vf = &core->vfs[i];

		if (vf->state == VGPU_VF_BACKOFF && vf->backoff_until <= core->now) {
			core_set_state(core, i, VGPU_VF_AVAIL);
			window_retry(core, i);
		}
		if (vf->reset.in_flight && vf->reset.deadline <= core->now) {
			vf->reset.in_flight = false;
			core_record(core, VGPU_REC_RESET_DONE, i, vf->reset.level,
				    core->now - vf->reset.started, 1);
			reset_failed(core, i);
		} else if (vf->reset.retry_at <= core->now) {
			issue(core, i);
		}
	}
	update_deadline(core);
}
