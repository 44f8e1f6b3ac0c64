/* SPDX-License-Identifier: MIT */
/*
 * Answers the control thread's requests: one in each round of the loop, so that no deadline waits
 * for more than one of them. Only changes of memory are answered later, and no other request waits
 * for them.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine_private.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* Upper bound of the time for one answer. */
#define ANSWER_TAKES (100 * VGPU_USEC)

/* A GPU that has returned but could not be set up has no policy in force: shows the one that it
 * would get. */
static void view_wanted(const struct engine *e, struct engine_snapshot *s)
{
	const struct policy_values *wanted = &e->config.begin;
	uint32_t i;

	s->governed = e->caps.kind == VGPU_DRIVER_PROGRAMMED;
	s->declared = e->caps.kind == VGPU_DRIVER_DECLARED;
	s->core = (struct vgpu_core_view){.current = VGPU_NO_VF, .policy = wanted->policy};
	memcpy(s->core.params, wanted->params, sizeof(s->core.params));
	for (i = 0; i < s->n_vfs; i++) {
		s->vfs[i].share_denominator = 1;
		s->vfs[i].bound.max_lag = s->vfs[i].bound.max_wait = VGPU_NEVER;
		memcpy(s->vfs[i].params, wanted->vf_params[i], sizeof(s->vfs[i].params));
	}
}

static void fill_snapshot(struct engine *e, struct engine_snapshot *s)
{
	struct vgpu_memory_view memory = {.n_extents = 0};

	if (e->memory.state) /* the GPU was opened */
		vgpu_memory_view(e->memory.state, &memory);
	*s = (struct engine_snapshot){
		.now = vgpu_now(),
		.lost = !e->driver,
		.caps = e->caps,
		.found = e->found,
		.n_extents = memory.n_extents,
		.memory = memory.counters,
		.pinned = memory.pinned,
		.epoch = memory.epoch,
		.waited = memory.waited,
		.n_vfs = e->config.core.max_vfs,
		.steps = e->steps,
		.spent = e->spent.now,
		.spun = e->spun,
		.realtime = e->realtime,
	};
	if (s->lost)
		memcpy(s->lost_why, e->lost_why.text, sizeof(s->lost_why) - 1);
	memcpy(s->extents, memory.extents, sizeof(s->extents));
	s->found.partition = memory.partition;
	s->lateness = e->lateness;
	s->switches = e->switches;
	s->preemption = e->preemption;
	s->decisions = e->decisions;
	if (e->is_set_up)
		e->time->view(e, s);
	else
		view_wanted(e, s);
}

static void reply(struct engine *e, struct engine_request *request)
{
	bool has_room;

	engine_publish(e);
	has_room = spsc_push(&e->replies, &request);
	assert(has_room); /* engine_send limits the requests in progress to REPLIES */
	e->told = true;
}

void engine_changed(void *data, struct engine_request *request)
{
	const struct vgpu_memory_change *want = &request->memory;
	struct engine *e = data;

	/* Keeps the size in case a lost device must be set up again. */
	if (request->result == 0 && want->what == VGPU_MEMORY_SET)
		e->config.driver.sizes[want->vf] = want->size ? want->size : VGPU_SIZE_NONE;
	if (request->snapshot)
		fill_snapshot(e, request->snapshot);
	reply(e, request);
}

void engine_refuse(struct engine_request *request, int r, const char *format, ...)
{
	va_list args;

	request->result = r;
	va_start(args, format);
	vsnprintf(request->why, sizeof(request->why), format, args);
	va_end(args);
}

/* For a GPU that could not be set up, or that a reload finds lost: keeps new values until it can
 * be. VMs' parameters then return with it, and a reload can correct values that prevent the set-up.
 * False: the event is of another kind. */
static bool keep_values(struct engine *e, struct engine_request *request)
{
	const struct vgpu_event *event = &request->event;
	struct policy_values *begin = &e->config.begin;
	size_t size = sizeof(begin->params);
	uint32_t i;

	if (event->type == VGPU_EV_POLICY) {
		begin->policy = event->policy;
		memcpy(begin->params, event->params, size);
		for (i = 0; i < e->config.core.max_vfs; i++)
			memcpy(begin->vf_params[i], event->vf_params + i * VGPU_MAX_PARAMS, size);
	} else if (event->type != VGPU_EV_SET_POLICY && event->type != VGPU_EV_SET_VF) {
		return false;
	} else if (event->policy != begin->policy) {
		request->result = -ESTALE;
	} else {
		memcpy(event->type == VGPU_EV_SET_VF ? begin->vf_params[event->vf] : begin->params,
		       event->params, size);
	}
	e->policy_changed = true;
	return true;
}

static void give_seat(struct engine *e, struct engine_request *request)
{
	const struct vgpu_event *event = &request->event;

	if (e->ops->seats)
		request->result = e->ops->seats->give(e->driver, event->vf, event->code,
						      (uint64_t)event->value, request->memory.size);
	else
		engine_refuse(request, -EOPNOTSUPP, "programs cannot have VFs of this GPU");
}

static void answer(struct engine *e, struct engine_request *request)
{
	request->result = 0;
	request->why[0] = '\0';
	if (request->ask == ENGINE_SNAPSHOT) {
		if (e->time && e->time->catch_up)
			e->time->catch_up(e);
		fill_snapshot(e, request->snapshot);
	} else if (!e->driver && (!e->was_set_up || request->keep) &&
		   request->ask == ENGINE_EVENT && keep_values(e, request)) {
		; /* kept */
	} else if (!e->driver) {
		engine_refuse(request, -ENODEV, "%s", e->lost_why.text);
	} else if (request->ask == ENGINE_SEAT) {
		give_seat(e, request);
	} else if (request->ask == ENGINE_MEMORY && e->ops->seats) {
		engine_refuse(request, -EOPNOTSUPP,
			      "VFs of this GPU have the memory that the configuration gives them "
			      "(memory_mib)");
	} else if (request->ask == ENGINE_MEMORY && !e->time->moves_memory) {
		engine_refuse(
			request, -EOPNOTSUPP,
			"the firmware of this GPU schedules it, so vgpud cannot take a VF off "
			"the engine to change its partition: set the VFs' memory in the "
			"configuration");
	} else if (request->ask == ENGINE_MEMORY) {
		gpu_memory_begin(&e->memory, request, vgpu_now());
		return;
	} else {
		/* A GPU that is lost is found to be so by what follows. */
		if (request->ask == ENGINE_EXPEL && e->ops->device->expel)
			e->ops->device->expel(e->driver, request->event.vf);
		e->time->change(e, request);
	}
	reply(e, request);
}

/* A deadline within ANSWER_TAKES precedes an answer; a request waits for one such deadline only. */
static bool must_wait(struct engine *e)
{
	e->put_off = !e->put_off && e->driver && !spsc_is_empty(&e->requests) &&
		     e->time->deadline(e) <= vgpu_now() + ANSWER_TAKES;
	return e->put_off;
}

void engine_serve(struct engine *e)
{
	struct engine_request *request;

	if (!must_wait(e) && spsc_pop(&e->requests, &request)) {
		answer(e, request);
		engine_drain(e);
	}
	if (e->told)
		vgpu_eventfd_signal(e->tell);
	e->told = false;
}
