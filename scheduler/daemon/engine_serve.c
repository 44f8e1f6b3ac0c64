/* SPDX-License-Identifier: MIT */
/* What the control thread asks of an engine: answered between two steps. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "builtin.h"
#include "engine_private.h"

static void fill_snapshot(struct engine *e, struct engine_snapshot *s)
{
	const char *warning = vgpu_core_warning(e->core);
	struct vgpu_memory_view memory;
	uint32_t i;

	vgpu_memory_view(e->memory.state, &memory);
	*s = (struct engine_snapshot){
		.now = engine_now(),
		.lost = !e->driver,
		.caps = e->caps,
		.found = e->found,
		.n_extents = memory.n_extents,
		.memory = memory.counters,
		.pinned = memory.pinned,
		.epoch = memory.epoch,
		.waited = memory.waited,
		.n_vfs = e->config.core.max_vfs,
		.records_lost = e->records_lost,
		.steps = e->steps,
		.realtime = e->realtime,
	};
	if (warning)
		strncpy(s->warning, warning, sizeof(s->warning) - 1);
	if (s->lost)
		memcpy(s->lost_why, e->lost_why.text, sizeof(s->lost_why) - 1);
	memcpy(s->extents, memory.extents, sizeof(s->extents));
	s->found.partition = memory.partition;
	s->lateness = e->lateness;
	s->switches = e->switches;
	s->preemption = e->preemption;
	s->decisions = e->decisions;
	vgpu_core_view(e->core, &s->core);
	memcpy(s->params, e->params, sizeof(s->params));
	memcpy(s->vf_params, e->vf_params, sizeof(s->vf_params));
	for (i = 0; i < s->n_vfs; i++)
		vgpu_core_vf_view(e->core, i, &s->vfs[i]);
}

/* What has been changed is remembered, for the day that the device has to be opened again. */
static void remember(struct engine *e, const struct vgpu_event *event)
{
	switch (event->type) {
	case VGPU_EV_POLICY:
		e->policy = event->policy;
		e->is_plugin = !vgpu_builtin_policy(e->policy->name);
		memcpy(e->params, event->params, sizeof(e->params));
		memcpy(e->vf_params, event->vf_params,
		       e->config.core.max_vfs * sizeof(e->vf_params[0]));
		break;
	case VGPU_EV_SET_POLICY:
		memcpy(e->params, event->params, sizeof(e->params));
		break;
	case VGPU_EV_SET_VF:
		memcpy(e->vf_params[event->vf], event->params, sizeof(e->vf_params[0]));
		break;
	default:
		break;
	}
}

static bool reply(struct engine *e, struct engine_request *request)
{
	/* The sender has room for all that it has sent. */
	spsc_push(&e->replies, &request);
	e->told = true;
	return true;
}

void engine_changed(void *data, struct engine_request *request)
{
	const struct vgpu_memory_change *want = &request->memory;
	struct engine *e = data;

	/* For the day that the device has to be set up anew. */
	if (request->result == 0 && want->what == VGPU_MEMORY_SET)
		e->config.driver.sizes[want->vf] = want->size ? want->size : VGPU_SIZE_NONE;
	if (request->snapshot)
		fill_snapshot(e, request->snapshot);
	reply(e, request);
}

/* There is no memory for it: until a change under way is over, or ever. */
static bool refuse_policy(struct engine *e, struct engine_request *request)
{
	if (request->event.policy->memory(e->config.core.max_vfs) <= RECORD_SLOT_SIZE)
		return false;
	request->result = -E2BIG;
	snprintf(request->why, sizeof(request->why), "the policy wants more than %u KiB of memory",
		 RECORD_SLOT_SIZE >> 10);
	return reply(e, request);
}

/* A guarantee pins its VF to the GPU, where it must have room beside all that are pinned: else the
 * VF is as it was. */
static void check_pins(struct engine *e, struct engine_request *request)
{
	const struct vgpu_event *asked = &request->event;
	uint32_t vf = asked->vf;
	struct vgpu_event back = {.type = VGPU_EV_SET_VF, .vf = vf, .params = e->vf_params[vf]};

	if (asked->type != VGPU_EV_SET_VF || !e->driver)
		return;
	gpu_memory_look(&e->memory, engine_now());
	if (!vgpu_memory_overflows(e->memory.state, vf) || engine_step(e, &back) < 0)
		return;
	request->result = -ENOSPC;
	snprintf(request->why, sizeof(request->why),
		 "a guarantee pins VF %u to the GPU's memory, which has no room for all that are "
		 "pinned and the largest of the others",
		 vf);
}

/* False: it cannot be done yet. */
static bool answer(struct engine *e, struct engine_request *request)
{
	struct vgpu_event *event = &request->event;

	request->result = 0;
	if (request->ask == ENGINE_SNAPSHOT) {
		fill_snapshot(e, request->snapshot);
	} else if (!e->driver) {
		request->result = -ENODEV;
		snprintf(request->why, sizeof(request->why), "%.150s", e->lost_why.text);
	} else if (request->ask == ENGINE_MEMORY) {
		gpu_memory_begin(&e->memory, request, engine_now());
		return true;
	} else {
		if (event->type == VGPU_EV_POLICY)
			event->memory = engine_take_slot(e, event->policy);
		if (event->type == VGPU_EV_POLICY && !event->memory)
			return refuse_policy(e, request);
		request->result = engine_step(e, event);
		if (request->result < 0 && event->type == VGPU_EV_POLICY)
			e->slot_used[recorder_slot_of(e->recorder, event->memory)] = false;
		if (request->result == -EBUSY)
			return false;
		if (request->result == 0)
			check_pins(e, request);
		if (request->result == 0)
			remember(e, event);
		else if (e->out.why)
			snprintf(request->why, sizeof(request->why), "%s", e->out.why);
	}
	return reply(e, request);
}

void engine_serve(struct engine *e)
{
	struct engine_request *request;

	while (e->held || spsc_pop(&e->requests, &request)) {
		if (e->held)
			request = e->held;
		e->held = NULL;
		if (!answer(e, request)) {
			/* A change of policy is under way; it ends with the next switch. */
			e->held = request;
			break;
		}
		engine_drain(e);
	}
	if (e->told)
		engine_notify(e->tell);
	e->told = false;
}
