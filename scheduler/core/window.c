/* SPDX-License-Identifier: MIT */
/*
 * Exclusive windows: a guest driver's start and stop, during which it needs the engine alone.
 * Windows are queued and granted at switch points, one at a time. Each is bounded in time, limited
 * in rate per VF, and charged as debt, so that a guest that restarts its driver in a loop costs its
 * neighbours no more than its share.
 */
#include "private.h"

void window_refuse(struct vgpu_core *core, uint32_t index, enum vgpu_window window)
{
	core_vf(core, index)->ledger.refused++;
	core_record(core, VGPU_REC_REFUSED, index, window, 0, 0);
	core_act(core, VGPU_AC_NOTICE, index, VGPU_NOTICE_REFUSED);
}

void window_enqueue(struct vgpu_core *core, uint32_t index, enum vgpu_window window)
{
	struct vf *vf = core_vf(core, index);

	if (history_exceeds(&vf->windows, WINDOWS_PER_MINUTE, 60 * VGPU_SEC, core->now)) {
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
	core->notes.wanted = true;
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

/* The first VF in the queue whose memory is on the GPU. */
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
