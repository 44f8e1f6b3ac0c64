/* SPDX-License-Identifier: MIT */
/*
 * Answers the control thread's requests: one in each round of the loop, so that no deadline waits
 * for more than one of them, however many there are. Only changes of memory are answered later, and
 * no other request waits for them.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine_private.h"
#include "vgpu/clock.h"
#include "vgpu/descriptor.h"

/* An upper bound of the time that one answer takes. */
#define ANSWER_TAKES (100 * VGPU_USEC)
/* A view may be that old: each step for a reader takes room in the recording. */
#define STALE_AFTER (10 * VGPU_MSEC)

/* Steps the core to now if its ledger is old: the ledger closes at each step, and a GPU without
 * work makes none. A deadline that is due is left to keep_time, which looks at the device first. */
static void catch_up(struct engine *e)
{
	struct vgpu_event timer = {.type = VGPU_EV_TIMER};
	vgpu_nsec now = vgpu_now();

	if (e->driver && now >= e->stepped_at + STALE_AFTER && now < vgpu_core_deadline(e->core))
		engine_step(e, &timer);
}

static void fill_snapshot(struct engine *e, struct engine_snapshot *s)
{
	const char *warning = vgpu_core_warning(e->core);
	struct vgpu_memory_view memory;
	uint32_t i;

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
		.spun = e->spun,
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
	for (i = 0; i < s->n_vfs; i++)
		vgpu_core_vf_view(e->core, i, &s->vfs[i]);
}

static void reply(struct engine *e, struct engine_request *request)
{
	bool has_room;

	engine_publish(e);
	has_room = spsc_push(&e->replies, &request);
	assert(has_room); /* engine_send lets no more be under way than REPLIES holds */
	e->told = true;
}

void engine_changed(void *data, struct engine_request *request)
{
	const struct vgpu_memory_change *want = &request->memory;
	struct engine *e = data;

	/* Keep the size for the case that a lost device must be set up again. */
	if (request->result == 0 && want->what == VGPU_MEMORY_SET)
		e->config.driver.sizes[want->vf] = want->size ? want->size : VGPU_SIZE_NONE;
	if (request->snapshot)
		fill_snapshot(e, request->snapshot);
	reply(e, request);
}

static __attribute__((format(printf, 3, 4))) void refuse(struct engine_request *request, int r,
							 const char *format, ...)
{
	va_list args;

	request->result = r;
	va_start(args, format);
	vsnprintf(request->why, sizeof(request->why), format, args);
	va_end(args);
}

/* Steps the core with the request's event, and takes its result and reason. */
static void step(struct engine *e, struct engine_request *request)
{
	request->result = engine_step(e, &request->event);
	if (request->result < 0 && e->out.why)
		refuse(request, request->result, "%s", e->out.why);
}

static void change_policy(struct engine *e, struct engine_request *request)
{
	struct vgpu_event *event = &request->event;

	event->memory = engine_take_slot(e, event->policy);
	if (event->policy->memory(e->config.core.max_vfs) > RECORD_SLOT_SIZE) {
		refuse(request, -E2BIG, "the policy needs more than %u KiB of memory",
		       RECORD_SLOT_SIZE >> 10);
	} else if (!event->memory) {
		refuse(request, -EBUSY, "another change of policy is under way; try again");
	} else {
		step(e, request);
		if (request->result < 0)
			e->slot_used[recorder_slot_of(e->recorder, event->memory)] = false;
	}
}

/* Sets a VF's parameters. A guarantee pins its VF to GPU memory: if that has no room for all pinned
 * VFs, the VF gets its former parameters back. */
static void set_vf(struct engine *e, struct engine_request *request)
{
	struct vgpu_event *event = &request->event, back = *event;
	struct vgpu_core_view core;
	struct vgpu_vf_view before;
	uint32_t vf = event->vf;

	vgpu_core_view(e->core, &core);
	vgpu_core_vf_view(e->core, vf, &before);
	step(e, request);
	/* Guarantees count, and pin, only once their policy is in force. */
	if (request->result < 0 || core.next_policy || !e->driver)
		return;
	gpu_memory_report(&e->memory, vgpu_now());
	if (!vgpu_memory_overflows(e->memory.state, vf))
		return;
	refuse(request, -ENOSPC,
	       "a guarantee pins VF %u to the GPU's memory, which has no room for all pinned VFs "
	       "and the largest of the others",
	       vf);
	back.params = before.params;
	if (engine_step(e, &back) < 0)
		refuse(request, -ENOSPC,
		       "VF %u keeps that guarantee and pins memory that other VFs need: the policy "
		       "refuses its former parameters now (%.60s)",
		       vf, e->out.why ? e->out.why : "");
}

static void answer(struct engine *e, struct engine_request *request)
{
	request->result = 0;
	request->why[0] = '\0';
	if (request->ask == ENGINE_SNAPSHOT) {
		catch_up(e);
		fill_snapshot(e, request->snapshot);
	} else if (!e->driver) {
		refuse(request, -ENODEV, "%s", e->lost_why.text);
	} else if (request->ask == ENGINE_MEMORY) {
		gpu_memory_begin(&e->memory, request, vgpu_now());
		return;
	} else if (request->event.type == VGPU_EV_POLICY) {
		change_policy(e, request);
	} else if (request->event.type == VGPU_EV_SET_VF) {
		set_vf(e, request);
	} else {
		step(e, request);
	}
	reply(e, request);
}

/* A deadline that is due within ANSWER_TAKES comes before an answer; a request waits for one such
 * deadline only. */
static bool must_wait(struct engine *e)
{
	e->put_off = !e->put_off && e->driver && !spsc_is_empty(&e->requests) &&
		     vgpu_core_deadline(e->core) <= vgpu_now() + ANSWER_TAKES;
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
