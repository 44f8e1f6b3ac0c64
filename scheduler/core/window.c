/* SPDX-License-Identifier: MIT */
/*
 * Exclusive windows: a guest driver's start and stop, during which it needs the engine alone.
 * Windows queue up and are granted at switch points, one at a time, each bounded in time, rate
 * limited per VF, and charged as debt, so that a guest that restarts its driver in a loop costs
 * its neighbours no more than its share.
 */
#include "private.h"

static void refuse(struct vgpu_core *core, uint32_t index, enum vgpu_window window)
{
	core_vf(core, index)->ledger.refused++;
	core_record(core, VGPU_REC_REFUSED, index, window, 0, 0);
	core_act(core, VGPU_AC_NOTICE, index, VGPU_NOTICE_REFUSED);
}

static void enqueue(struct vgpu_core *core, uint32_t index, enum vgpu_window window)
{
	struct vf *vf = core_vf(core, index);

	if (history_exceeds(&vf->windows, WINDOWS_PER_MINUTE, 60 * VGPU_SEC, core->now)) {
		refuse(core, index, window);
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
	govern_sync(core, index);
	switch_others_want(core);
}

void window_request(struct vgpu_core *core, uint32_t index, enum vgpu_window window)
{
	struct vf *vf = core_vf(core, index);

	if (window == VGPU_WINDOW_RESET) {
		if (vf->state == VGPU_VF_QUARANTINED || vf->state == VGPU_VF_FAILED)
			refuse(core, index, window);
		else
			ladder_reset(core, index, false);
		return;
	}
	switch (vf->state) {
	case VGPU_VF_AVAIL:
		if (window == VGPU_WINDOW_INIT)
			enqueue(core, index, window);
		else
			refuse(core, index, window);
		return;
	case VGPU_VF_ACTIVE:
		if (window == VGPU_WINDOW_FINI) {
			enqueue(core, index, window);
		} else {
			/* Its driver starts again without having said goodbye. */
			vf->want_init = true;
			ladder_reset(core, index, false);
		}
		return;
	case VGPU_VF_SCRUBBING:
	case VGPU_VF_BACKOFF:
		if (window == VGPU_WINDOW_INIT)
			vf->want_init = true;
		else
			refuse(core, index, window);
		return;
	case VGPU_VF_EXCLUSIVE: /* it asks twice */
		return;
	case VGPU_VF_QUARANTINED:
	case VGPU_VF_FAILED:
		refuse(core, index, window);
		return;
	case VGPU_VF_ABSENT:
	case VGPU_VF_STATE_COUNT:
		return;
	}
}

/* Answers a request that came while the VF was being scrubbed, or held back. */
void window_retry(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);

	if (!vf->want_init || vf->state == VGPU_VF_SCRUBBING || vf->state == VGPU_VF_BACKOFF)
		return;
	vf->want_init = false;
	window_request(core, index, VGPU_WINDOW_INIT);
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

/* The first in the queue whose memory is there. */
static uint32_t first(const struct vgpu_core *core)
{
	uint32_t index = core->window_head;

	while (index != VGPU_NO_VF && core->vfs[index].away)
		index = core->vfs[index].next_queued;
	return index;
}

bool window_waits(const struct vgpu_core *core)
{
	return first(core) != VGPU_NO_VF;
}

uint32_t window_pop(struct vgpu_core *core)
{
	uint32_t index = first(core);

	if (index != VGPU_NO_VF)
		window_cancel(core, index);
	return index;
}

/* The VF runs, alone: let it in, and tell it. */
void window_opened(struct vgpu_core *core)
{
	uint32_t index = core->resident;
	struct vf *vf = core_vf(core, index);

	vf->ledger.windows++;
	core->window_end = nsec_add(core->now, core->config.window_max);
	core_record(core, VGPU_REC_WINDOW, index, vf->window, 0, 0);
	core_act(core, VGPU_AC_GATES, index, VGPU_GATES_ALL);
	core_act(core, VGPU_AC_NOTICE, index, VGPU_NOTICE_READY);
}

void window_release(struct vgpu_core *core, uint32_t index, enum vgpu_window window)
{
	struct vf *vf = core_vf(core, index);

	if (!core->in_window || core->resident != index || core->phase != VGPU_PHASE_RUN ||
	    vf->window != window) {
		core->ledger.stale_answers++;
		return;
	}
	core_record(core, VGPU_REC_WINDOW_END, index, window, core->now - core->phase_since, 0);
	core_act(core, VGPU_AC_GATES, index,
		 window == VGPU_WINDOW_INIT ? VGPU_GATE_DOORBELL | VGPU_GATE_MEMORY : 0);
	switch_preempt(core, VGPU_END_EXCLUSIVE, core->now);
}

void window_timed_out(struct vgpu_core *core)
{
	uint32_t index = core->resident;
	struct vf *vf = core_vf(core, index);
	bool again;

	vf->ledger.window_timeouts++;
	again = history_exceeds(&vf->window_timeouts, WINDOW_TIMEOUTS - 1, WINDOW_TIMEOUT_SPAN,
				core->now);
	core_record(core, VGPU_REC_WINDOW_END, index, vf->window, core->now - core->phase_since, 1);
	ladder_reset(core, index, true);
	if (again)
		vf->after_scrub = VGPU_VF_QUARANTINED;
}
