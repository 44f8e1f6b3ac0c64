/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "vhost_private.h"

/* Checks that no other VF's context is on the engine. */
static __attribute__((noinline)) void check_alone(struct vhost *h, const struct vgpu_action *a)
{
	uint32_t i;

	for (i = 0; i < h->n_vfs; i++)
		if (i != a->vf && h->vfs[i].context != VGPU_CTX_NONE &&
		    h->vfs[i].context != VGPU_CTX_SAVED && h->vfs[i].reset_at == VGPU_NEVER &&
		    h->vfs[i].context != VGPU_CTX_BROKEN)
			vhost_fail(h, "%s for VF %u while VF %u is %s", vgpu_command_names[a->code],
				   a->vf, i, vgpu_context_names[h->vfs[i].context]);
}

/* Begins a command. The legal order is checked here, independently of the core. */
static void begin_command(struct vhost *h, const struct vgpu_action *a)
{
	static const struct {
		enum vgpu_context before, after;
	} legal[VGPU_CMD_COUNT] = {
		[VGPU_CMD_IDLE] = {VGPU_CTX_RUNNING, VGPU_CTX_IDLED},
		[VGPU_CMD_SAVE] = {VGPU_CTX_IDLED, VGPU_CTX_SAVED},
		[VGPU_CMD_LOAD] = {VGPU_CTX_SAVED, VGPU_CTX_LOADED},
		[VGPU_CMD_INIT] = {VGPU_CTX_NONE, VGPU_CTX_LOADED},
		[VGPU_CMD_RUN] = {VGPU_CTX_LOADED, VGPU_CTX_RUNNING},
		[VGPU_CMD_SHUTDOWN] = {VGPU_CTX_SAVED, VGPU_CTX_NONE},
	};
	struct vhost_vf *vf = &h->vfs[a->vf];
	vgpu_nsec took = 0;

	if (vf->context != legal[a->code].before)
		vhost_fail(h, "%s for VF %u, whose context is %s", vgpu_command_names[a->code],
			   a->vf, vgpu_context_names[vf->context]);
	if (vf->incoming &&
	    (a->code == VGPU_CMD_INIT || a->code == VGPU_CMD_LOAD || a->code == VGPU_CMD_RUN))
		vhost_fail(h, "%s for VF %u, whose VM has not resumed", vgpu_command_names[a->code],
			   a->vf);
	if (!h->unchecked)
		check_alone(h, a);
	switch (a->code) {
	case VGPU_CMD_IDLE:
		took = draw(h, chance(h, vf->rare_ppm) ? vf->rare : vf->late);
		if (vf->late_span.max && h->now / vf->late_span.max % 2)
			took = 0;
		h->idle_asked = h->now;
		break;
	case VGPU_CMD_SAVE:
		took = draw(h, vf->save);
		break;
	case VGPU_CMD_LOAD:
		took = draw(h, h->load);
		break;
	case VGPU_CMD_INIT:
		took = draw(h, h->init);
		if (vf->dirty)
			vhost_fail(h, "VF %u: initialised on memory that was not cleared", a->vf);
		break;
	case VGPU_CMD_RUN:
		took = draw(h, h->run);
		break;
	default:
		break;
	}
	if (h->gpu_memory)
		memory_command(h, a->vf, (enum vgpu_command)a->code);
	h->command = (struct vhost_command){.vf = a->vf, .code = a->code};
	if (chance(h, h->command_fails_ppm)) {
		h->command.status = 2;
		h->command_at = h->now + took;
		return;
	}
	if (a->code == VGPU_CMD_IDLE && (vf->hangs_next || chance(h, vf->hang_ppm))) {
		vf->hangs_next = false;
		vf->context = VGPU_CTX_BROKEN;
		return;
	}
	vf->context = legal[a->code].after;
	h->command_at = h->now + took;
}

/* Carries out a command of the core. Commands of one step follow each other, if the GPU can chain
 * them. */
static void command(struct vhost *h, const struct vgpu_action *a)
{
	bool follows =
		h->command_at != VGPU_NEVER && h->config.chains && h->command_step == h->steps;

	h->command_step = h->steps;
	if (follows && h->chain_n < VHOST_CHAIN) {
		h->chain[h->chain_n++] = *a;
		return;
	}
	if (h->command_at != VGPU_NEVER)
		vhost_fail(h, "%s for VF %u while a command is in flight",
			   vgpu_command_names[a->code], a->vf);
	h->chain_n = h->chain_at = 0;
	begin_command(h, a);
}

/* Drops the chain of commands: none follows a failure, nor a reset of its VF. */
static void drop(struct vhost *h)
{
	h->command_at = VGPU_NEVER;
	h->chain_n = h->chain_at = 0;
}

struct vgpu_event device_done(struct vhost *h)
{
	struct vhost_command done = h->command;
	const struct vgpu_action *next = &h->chain[h->chain_at];

	h->command_at = VGPU_NEVER;
	if (done.status != 0 || h->chain_at == h->chain_n ||
	    h->vfs[next->vf].context == VGPU_CTX_BROKEN) {
		drop(h);
	} else {
		h->chain_at++;
		begin_command(h, next);
	}
	return (struct vgpu_event){.now = h->now,
				   .type = VGPU_EV_DONE,
				   .vf = done.vf,
				   .code = done.code,
				   .value = done.status};
}

void device_forget(struct vhost *h, uint32_t vf)
{
	if (h->command_at != VGPU_NEVER && h->command.vf == vf)
		drop(h);
	h->vfs[vf].context = VGPU_CTX_NONE;
	h->vfs[vf].dirty = true;
	memory_writes(h, vf);
	h->vfs[vf].release_at = VGPU_NEVER;
	h->vfs[vf].up = false;
	h->vfs[vf].busy = false;
	h->vfs[vf].wants_init = !h->vfs[vf].stays_down;
	h->vfs[vf].next_change = h->now + VGPU_MSEC;
	vhost_touch(h, vf);
}

static vgpu_nsec window_length(struct vhost *h, const struct vhost_vf *vf)
{
	if (vf->own_window)
		return vf->own_window;
	return draw(h, vf->window.max ? vf->window : h->window);
}

/* Carries out an action that is not a command. */
static void act(struct vhost *h, const struct vgpu_action *a)
{
	int i;

	switch (a->type) {
	case VGPU_AC_RESET:
		if (h->vfs[a->vf].reset_at != VGPU_NEVER)
			vhost_fail(h, "VF %u: two resets at once", a->vf);
		h->vfs[a->vf].reset_at = h->now + draw(h, h->reset);
		h->vfs[a->vf].reset_level = a->code;
		if (h->command_at != VGPU_NEVER && h->command.vf == a->vf)
			drop(h);
		h->vfs[a->vf].context = VGPU_CTX_BROKEN;
		break;
	case VGPU_AC_SCRUB:
		h->vfs[a->vf].scrubs++;
		if (h->gpu_memory)
			memory_scrub(h, a->vf);
		else
			h->vfs[a->vf].scrub_at = h->now + draw(h, h->scrub);
		if (h->vfs[a->vf].context != VGPU_CTX_NONE)
			vhost_fail(h, "VF %u: scrubbed while its context is %s", a->vf,
				   vgpu_context_names[h->vfs[a->vf].context]);
		break;
	case VGPU_AC_NOTICE:
		if (a->code == VGPU_NOTICE_READY && !h->refuse_windows_end)
			h->vfs[a->vf].release_at = h->now + window_length(h, &h->vfs[a->vf]);
		if (a->code == VGPU_NOTICE_READY)
			h->vfs[a->vf].release_kind =
				h->vfs[a->vf].up ? VGPU_WINDOW_FINI : VGPU_WINDOW_INIT;
		if (a->code == VGPU_NOTICE_REFUSED) {
			h->vfs[a->vf].wants_init = true;
			h->vfs[a->vf].next_change = h->now + 5 * VGPU_SEC;
		}
		if (a->code == VGPU_NOTICE_RESET)
			h->vfs[a->vf].release_at = VGPU_NEVER;
		break;
	case VGPU_AC_RETIRE:
		for (i = 0; i < 2; i++)
			if (h->policy_memory[i] == a->memory)
				h->policy_memory[i] = NULL;
		free(a->memory);
		break;
	case VGPU_AC_ACCESS:
	case VGPU_AC_COMMAND:
		break;
	}
	if (a->vf < h->n_vfs)
		vhost_touch(h, a->vf);
}

void device_act(struct vhost *h, const struct vgpu_action *a)
{
	if (a->type == VGPU_AC_COMMAND)
		command(h, a); /* nothing of it is due without an event of the core */
	else
		act(h, a);
}

void vhost_guest_reset(struct vhost *h, uint32_t vf)
{
	device_forget(h, vf);
	h->vfs[vf].context = VGPU_CTX_BROKEN; /* until it is reset from the PF, too */
	event_vf(h, VGPU_EV_GUEST_RESET, vf, 0, 0);
}

void device_faults(struct vhost *h, uint32_t i)
{
	if (!h->vfs[i].up)
		return;
	if (chance(h, h->vfs[i].reset_ppm)) {
		vhost_guest_reset(h, i);
	} else if (chance(h, h->vfs[i].window_ppm)) {
		event_vf(h, VGPU_EV_REQUEST, i, VGPU_WINDOW_FINI, 0);
	}
}

void device_reset_is_done(struct vhost *h, uint32_t i)
{
	int64_t status = chance(h, h->reset_fails_ppm) ? -5 : 0;
	uint32_t j;

	h->vfs[i].reset_at = VGPU_NEVER;
	for (j = 0; j < h->n_vfs && status == 0; j++) {
		if (j != i && h->vfs[i].reset_level != VGPU_RESET_GPU)
			continue;
		h->vfs[j].reset_at = VGPU_NEVER;
		device_forget(h, j);
	}
	event_vf(h, VGPU_EV_RESET_DONE, i, h->vfs[i].reset_level, status);
}
