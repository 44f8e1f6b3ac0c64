/* SPDX-License-Identifier: MIT */
/*
 * The requests that a guest may make in each state of its VF, and the consequences of a reset by
 * the guest.
 */
#include "private.h"

enum answer {
	NOTHING = 0, /* ignore: the same request is pending */
	REFUSE,
	QUEUE,	 /* queue the VF for the window */
	LATER,	 /* queue it once the VF is available */
	RESTART, /* the driver starts again without having stopped: reset the VF, then queue it */
	RESET,
};

/* Columns: VGPU_WINDOW_INIT, _FINI, _RESET. */
static const enum answer answers[VGPU_VF_STATE_COUNT][VGPU_WINDOW_COUNT] = {
	[VGPU_VF_SCRUBBING] = {LATER, REFUSE, RESET},
	[VGPU_VF_AVAIL] = {QUEUE, REFUSE, RESET},
	[VGPU_VF_EXCLUSIVE] = {NOTHING, NOTHING, RESET},
	[VGPU_VF_ACTIVE] = {RESTART, QUEUE, RESET},
	[VGPU_VF_BACKOFF] = {LATER, REFUSE, RESET},
	[VGPU_VF_QUARANTINED] = {REFUSE, REFUSE, REFUSE},
	[VGPU_VF_FAILED] = {REFUSE, REFUSE, REFUSE},
};

void guest_request(struct vgpu_core *core, uint32_t index, enum vgpu_window window)
{
	struct vf *vf = core_vf(core, index);

	switch (answers[vf->state][window]) {
	case NOTHING:
		return;
	case REFUSE:
		window_refuse(core, index, window);
		return;
	case QUEUE:
		window_enqueue(core, index, window);
		return;
	case LATER:
		vf->want_init = true;
		return;
	case RESTART:
		vf->want_init = true;
		ladder_reset(core, index, VGPU_BLAME_NONE);
		return;
	case RESET:
		if (ladder_is_resetting(vf))
			return; /* the reset under way serves this request too */
		if (history_exceeds(&vf->resets, RESETS_PER_MINUTE, 60 * VGPU_SEC, core->now))
			window_refuse(core, index, window);
		else
			ladder_reset(core, index, VGPU_BLAME_NONE);
		return;
	}
}

void guest_release(struct vgpu_core *core, uint32_t index, enum vgpu_window window)
{
	if (!core->in_window || core->resident != index || core->phase != VGPU_PHASE_RUN ||
	    core->vfs[index].window != window)
		core->ledger.stale_answers++;
	else
		switch_release(core);
}

void guest_reset(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = core_vf(core, index);

	vf->ledger.guest_resets++;
	vf->want_init = false;
	if (core->resident == index)
		vf->context = VGPU_CTX_BROKEN; /* the VF cannot complete a SAVE any more */
	if (vf->context != VGPU_CTX_NONE || vf->queued || core->resident == index ||
	    core->target == index)
		ladder_reset(core, index, VGPU_BLAME_NONE);
	else if (vf->state != VGPU_VF_FAILED)
		/* No driver was up, but the tenant may have written to the VF's memory. */
		ladder_scrub(core, index);
}
