/* SPDX-License-Identifier: MIT */
/*
 * Exclusive windows: a guest driver's start and stop, during which it needs the engine alone.
 * Windows are queued and granted at switch points, one at a time. Each is bounded in time, limited
 * in rate per VF, and charged as debt. A VF gets its next window when it has paid for its former
 * ones, except for a credit. Between any two windows, each VF that waits for the engine has a turn:
 * a round. So a guest that restarts its driver in a loop costs its neighbours no more than its
 * share, and no wait of a neighbour contains two windows, unless the policy serves others for a
 * second.
 */
#include "private.h"

static bool round_is_over(const struct vgpu_core *core)
{
	return core->n_owed_round == 0 || core->now >= core->round_stalls_at;
}

static void begin_round(struct vgpu_core *core)
{
	uint32_t i;

	core->had_window = false;
	core->n_owed_round = 0;
	core->round_stalls_at = core->now + ROUND_STALLS;
	for (i = 0; i < core->config.max_vfs; i++) {
		struct vf *vf = &core->vfs[i];

		vf->owed_round = vf->awake;
		core->n_owed_round += vf->owed_round;
	}
}

/* Plans when to check for a window; one that is due already needs no plan. */
static void plan(struct vgpu_core *core)
{
	uint32_t index;
	vgpu_nsec at;

	core->window_deadline = VGPU_NEVER;
	for (index = core->window_head; index != VGPU_NO_VF; index = core->vfs[index].next_queued) {
		if (vf_is_out(&core->vfs[index]))
			continue;
		at = ledger_credit_at(core, &core->vfs[index]);
		if (at <= core->now)
			at = round_is_over(core) ? VGPU_NEVER : core->round_stalls_at;
		core->window_deadline = nsec_min(core->window_deadline, at);
	}
}

void window_refuse(struct vgpu_core *core, uint32_t index, enum vgpu_window window)
{
	core_vf(core, index)->ledger.refused++;
	core_record(core, VGPU_REC_REFUSED, index, window, 0, 0);
	core_act(core, VGPU_AC_NOTICE, index, VGPU_NOTICE_REFUSED);
}

void window_enqueue(struct vgpu_core *core, uint32_t index, enum vgpu_window window)
{
	struct vf *vf = core_vf(core, index);

	if (!bucket_take(&vf->window_tokens_at, WINDOW_BURST, WINDOW_REFILL, core->now)) {
		window_refuse(core, index, window);
		return;
	}
	vf->queued = true;
	vf->held = false;
	vf->window = window;
	vf->next_queued = VGPU_NO_VF;
	if (core->window_tail == VGPU_NO_VF)
		core->window_head = index;
	else
		core_vf(core, core->window_tail)->next_queued = index;
	core->window_tail = index;
	core_set_state(core, index, VGPU_VF_EXCLUSIVE);
	policy_host_sync(core, index);
	/* New parameters may have changed a share later than they were set. */
	ledger_share_out(core);
	core->notes.wanted = true;
	plan(core);
}

void window_retry(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);

	if (!vf->want_init || vf->state == VGPU_VF_SCRUBBING || vf->state == VGPU_VF_BACKOFF)
		return;
	vf->want_init = false;
	if (vf->state == VGPU_VF_AVAIL)
		window_enqueue(core, index, VGPU_WINDOW_INIT);
	else
		window_refuse(core, index, VGPU_WINDOW_INIT);
}

void window_cancel(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);
	uint32_t *link = &core->window_head, previous = VGPU_NO_VF;

	if (!vf->queued)
		return;
	while (*link != index) {
		previous = *link;
		link = &core_vf(core, *link)->next_queued;
	}
	*link = vf->next_queued;
	if (core->window_tail == index)
		core->window_tail = previous;
	vf->queued = false;
}

/* The first VF in the queue that can be loaded and has credit. */
static uint32_t first(struct vgpu_core *core)
{
	uint32_t index = core->window_head;

	while (index != VGPU_NO_VF && (vf_is_out(&core->vfs[index]) ||
				       ledger_credit_at(core, &core->vfs[index]) > core->now))
		index = core->vfs[index].next_queued;
	return index;
}

bool window_waits(struct vgpu_core *core)
{
	return first(core) != VGPU_NO_VF;
}

bool window_is_due(struct vgpu_core *core)
{
	return window_waits(core) && round_is_over(core);
}

uint32_t window_pop(struct vgpu_core *core)
{
	uint32_t index;

	if (core->had_window)
		begin_round(core);
	if (window_is_due(core)) {
		index = first(core);
		window_cancel(core, index);
		core->had_window = true;
		return index;
	}
	if (core->window_head != VGPU_NO_VF)
		plan(core);
	return VGPU_NO_VF;
}

/* A VF may have got its credit, or the round may have stalled. */
void window_timer(struct vgpu_core *core)
{
	if (core->now < core->window_deadline)
		return;
	core->notes.wanted = true;
	plan(core);
}

void window_opened(struct vgpu_core *core)
{
	uint32_t index = core->resident;
	struct vf *vf = core_vf(core, index);

	vf->ledger.windows++;
	core->window_end = nsec_add(core->now, core->config.window_max);
	core_record(core, VGPU_REC_WINDOW, index, vf->window, 0, 0);
	core_act(core, VGPU_AC_ACCESS, index, VGPU_ACCESS_ALL);
	core_act(core, VGPU_AC_NOTICE, index, VGPU_NOTICE_READY);
}

void window_closed(struct vgpu_core *core, bool timed_out)
{
	core_record(core, VGPU_REC_WINDOW_END, core->resident, core->vfs[core->resident].window,
		    core->now - core->phase_since, timed_out);
}
