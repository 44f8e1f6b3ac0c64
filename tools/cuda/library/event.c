/* SPDX-License-Identifier: MIT */
#include "event.h"

#include <stdlib.h>

#define EVENT_NO_TIMING 2u /* CU_EVENT_DISABLE_TIMING */
#define EVENT_SHARED 4u	   /* CU_EVENT_INTERPROCESS, which must be without timing */
#define EVENT_FLAGS 7u	   /* these two, and CU_EVENT_BLOCKING_SYNC */

static bool taken[LINK_TIMES];

void event_forget(struct captured_event *e)
{
	e->capture = NULL;
	node_list_clear(&e->tips);
}

void event_end(struct event *event)
{
	event_forget(&event->captured);
	ipc_event_end(&event->shared);
	handle_drop(HANDLE_EVENT, event->handle);
	if (event->timed)
		taken[event->place] = false;
	free(event);
}

void event_end_all(const struct context *context)
{
	struct event *event;
	uint32_t at;

	for (at = 0; (event = handle_next(HANDLE_EVENT, &at));)
		if (event->context == context)
			event_end(event);
}

CUresult event_make(CUevent *out, unsigned flags, const struct context *context)
{
	const bool timed = !(flags & EVENT_NO_TIMING);
	uint32_t place = 0;
	struct event *event;

	if (!out || flags & ~EVENT_FLAGS ||
	    (flags & (EVENT_SHARED | EVENT_NO_TIMING)) == EVENT_SHARED)
		return CUDA_ERROR_INVALID_VALUE;
	while (timed && place < LINK_TIMES && taken[place])
		place++;
	event = place < LINK_TIMES ? calloc(1, sizeof(*event)) : NULL;
	if (event)
		event->handle = handle_make(HANDLE_EVENT, event);
	if (!event || !event->handle) {
		free(event);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	event->place = place;
	if (timed)
		taken[place] = true;
	event->context = context;
	event->timed = timed;
	event->shared.may_show = flags & EVENT_SHARED;
	*out = event->handle;
	return CUDA_SUCCESS;
}

CUresult event_run(CUevent h)
{
	struct event *event = handle_find(HANDLE_EVENT, h);
	CUresult e = CUDA_SUCCESS;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->timed)
		e = link_put(SOFTGPU_EVENT, 0,
			     (uint64_t[7]){link_parts.times_at + event->place * sizeof(uint64_t)});
	if (e == CUDA_SUCCESS)
		e = link_fence(&event->fence);
	if (e == CUDA_SUCCESS)
		ipc_event_record(&event->shared, event->fence);
	return e;
}

CUresult event_wait(CUevent h)
{
	const struct event *event = handle_find(HANDLE_EVENT, h);

	return event ? ipc_event_await(&event->shared) : CUDA_ERROR_INVALID_HANDLE;
}
