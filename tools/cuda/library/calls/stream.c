/* SPDX-License-Identifier: MIT */
/*
 * Streams and events. The VF executes everything in the order of the calls, whatever their streams;
 * that is one of the orders that CUDA permits. So a stream never waits for another one's event,
 * unless another process has recorded it, and waiting for a stream waits for all.
 */
#include <stdlib.h>

#include "capture.h"
#include "ipc_event.h"
#include "library.h"

#define STREAM_FLAGS 1u	   /* CU_STREAM_NON_BLOCKING */
#define EVENT_NO_TIMING 2u /* CU_EVENT_DISABLE_TIMING */
#define EVENT_SHARED 4u	   /* CU_EVENT_INTERPROCESS, which must be without timing */
#define EVENT_FLAGS 7u	   /* and CU_EVENT_BLOCKING_SYNC */

struct event {
	void *handle;
	const struct context *context;
	uint32_t place; /* in the times, if it is timed */
	bool timed;
	struct captured_event captured;
	uint64_t fence; /* behind its last record; 0: it was not recorded */
	struct ipc_event shared;
};

/* The events' part that captures have: see capture.h. */
struct captured_event *stream_event(CUevent h)
{
	struct event *event = handle_find(HANDLE_EVENT, h);

	return event ? &event->captured : NULL;
}

struct ipc_event *stream_shared_event(CUevent h, uint64_t *fence)
{
	struct event *event = handle_find(HANDLE_EVENT, h);

	if (!event)
		return NULL;
	*fence = event->fence;
	return &event->shared;
}

struct stream stream_default;
static bool taken[LINK_TIMES];

static void end_event(struct event *event)
{
	capture_forget_event(&event->captured);
	ipc_event_end(&event->shared);
	handle_drop(HANDLE_EVENT, event->handle);
	if (event->timed)
		taken[event->place] = false;
	free(event);
}

static void end_stream(struct stream *stream)
{
	capture_abandon(stream);
	handle_drop(HANDLE_STREAM, stream->handle);
	free(stream);
}

void stream_end_capture(const struct capture *c)
{
	struct stream *stream;
	struct event *event;
	uint32_t at;

	for (at = 0; (stream = handle_next(HANDLE_STREAM, &at));)
		if (stream->capture == c) {
			stream->capture = NULL;
			graph_list_clear(&stream->tips);
		}
	for (at = 0; (event = handle_next(HANDLE_EVENT, &at));)
		if (event->captured.capture == c)
			capture_forget_event(&event->captured);
}

void stream_end_all(const struct context *context)
{
	struct stream *stream;
	struct event *event;
	uint32_t at;

	for (at = 0; (stream = handle_next(HANDLE_STREAM, &at));)
		if (stream->context == context)
			end_stream(stream);
	for (at = 0; (event = handle_next(HANDLE_EVENT, &at));)
		if (event->context == context)
			end_event(event);
}

static uint64_t n_streams = STREAM_DEFAULTS;

static CUresult create_stream(CUstream *out, unsigned flags, const struct context *context)
{
	struct stream *stream;

	if (!out || flags & ~STREAM_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	stream = calloc(1, sizeof(*stream));
	if (stream)
		stream->handle = handle_make(HANDLE_STREAM, stream);
	if (!stream || !stream->handle) {
		free(stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stream->context = context;
	stream->flags = flags;
	stream->number = ++n_streams;
	*out = stream->handle;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	return CALL_END(e == CUDA_SUCCESS ? create_stream(out, flags, c) : e);
}

/* Priorities outside of the range, which has one, are brought into it, as CUDA documents. */
CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	(void)priority;
	return CALL_END(e == CUDA_SUCCESS ? create_stream(out, flags, c) : e);
}

CUresult cuStreamDestroy_v2(CUstream s)
{
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	if (e == CUDA_SUCCESS && stream == &stream_default)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS)
		end_stream(stream);
	return CALL_END(e);
}
CALL_FIRST(cuStreamDestroy, cuStreamDestroy_v2);

static CUresult query_stream(struct stream *stream)
{
	bool reached = true;
	CUresult e = CUDA_SUCCESS;

	if (stream->last <= link_done())
		return link_lost();
	if (stream->last > stream->fenced) {
		e = link_fence(&stream->fence);
		stream->fenced = stream->last;
	}
	if (e == CUDA_SUCCESS)
		e = link_reached(stream->fence, &reached);
	return e == CUDA_SUCCESS && !reached ? CUDA_ERROR_NOT_READY : e;
}

CUresult cuStreamQuery(CUstream s)
{
	struct stream *stream;
	CUresult e = work_begin_now(s, &stream);

	return CALL_END(e == CUDA_SUCCESS ? query_stream(stream) : e);
}

CUresult cuStreamSynchronize(CUstream s)
{
	struct stream *stream;
	CUresult e = work_begin_now(s, &stream);

	return CALL_END(e == CUDA_SUCCESS ? link_wait() : e);
}

#define EXTERNAL 1u /* a node of the graph that the stream captures, and no order of its nodes */

static bool flags_fit(const struct stream *stream, unsigned flags)
{
	return flags == 0 || (flags == EXTERNAL && stream->capture);
}

/* What comes later in any stream comes after the record. In a graph it need not: there, the stream
 * joins the capture of the event. */
CUresult cuStreamWaitEvent(CUstream s, CUevent h, unsigned flags)
{
	const struct work w = {.kind = WORK_WAIT, .event = h};
	struct stream *stream;
	CUresult e = work_begin(s, &stream);
	struct event *event = handle_find(HANDLE_EVENT, h);

	if (e == CUDA_SUCCESS && !event)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS && !flags_fit(stream, flags))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !(flags & EXTERNAL) &&
	    (event->captured.capture || stream->capture))
		e = stream == &stream_default ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
					      : capture_wait(stream, &event->captured);
	else if (e == CUDA_SUCCESS)
		e = work_put(stream, &w);
	return CALL_END(e);
}

CUresult event_wait(CUevent h)
{
	const struct event *event = handle_find(HANDLE_EVENT, h);

	return event ? ipc_event_await(&event->shared) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult stream_make_event(CUevent *out, unsigned flags, const struct context *context)
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

CUresult cuEventCreate(CUevent *out, unsigned flags)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	return CALL_END(e == CUDA_SUCCESS ? stream_make_event(out, flags, c) : e);
}

/* Begins a call about an event. */
static CUresult begin_event(CUevent h, struct event **out)
{
	CUresult e = call_begin(NEEDS_OWNER, NULL);

	*out = handle_find(HANDLE_EVENT, h);
	return e == CUDA_SUCCESS && !*out ? CUDA_ERROR_INVALID_HANDLE : e;
}

CUresult cuEventDestroy_v2(CUevent h)
{
	struct event *event;
	CUresult e = begin_event(h, &event);

	if (e == CUDA_SUCCESS)
		end_event(event);
	return CALL_END(e);
}
CALL_FIRST(cuEventDestroy, cuEventDestroy_v2);

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

static CUresult record(CUevent h, CUstream s, unsigned flags)
{
	const struct work w = {.kind = WORK_EVENT, .event = h};
	struct stream *stream;
	CUresult e = work_begin(s, &stream);
	struct event *event = handle_find(HANDLE_EVENT, h);

	if (e == CUDA_SUCCESS && (!event || (stream->context && stream->context != event->context)))
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS && !flags_fit(stream, flags))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e != CUDA_SUCCESS)
		return e;
	if (flags & EXTERNAL)
		return work_put(stream, &w);
	capture_forget_event(&event->captured);
	if (stream->capture)
		return capture_record(stream, &event->captured);
	return work_put(stream, &w);
}

CUresult cuEventRecord(CUevent h, CUstream s)
{
	return CALL_END(record(h, s, 0));
}

CUresult cuEventRecordWithFlags(CUevent h, CUstream s, unsigned flags)
{
	return CALL_END(record(h, s, flags));
}

/* An event that was never recorded is ready. */
static CUresult query_event(const struct event *event)
{
	bool reached = true;
	CUresult e;

	if (event->captured.capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (ipc_event_is_shared(&event->shared))
		return ipc_event_query(&event->shared);
	e = event->fence ? link_reached(event->fence, &reached) : CUDA_SUCCESS;

	return e == CUDA_SUCCESS && !reached ? CUDA_ERROR_NOT_READY : e;
}

CUresult cuEventQuery(CUevent h)
{
	struct event *event;
	CUresult e = begin_event(h, &event);

	return CALL_END(e == CUDA_SUCCESS ? query_event(event) : e);
}

CUresult cuEventSynchronize(CUevent h)
{
	struct event *event;
	CUresult e = begin_event(h, &event);

	if (e == CUDA_SUCCESS && event->captured.capture)
		e = CUDA_ERROR_CAPTURED_EVENT;
	if (e == CUDA_SUCCESS && ipc_event_is_shared(&event->shared))
		e = ipc_event_wait(&event->shared);
	else if (e == CUDA_SUCCESS && event->fence)
		e = link_wait_for(event->fence);
	return CALL_END(e);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	struct event *from, *to;
	CUresult e = begin_event(start, &from);

	to = handle_find(HANDLE_EVENT, end);
	if (e == CUDA_SUCCESS && !milliseconds)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && to && (from->captured.capture || to->captured.capture))
		e = CUDA_ERROR_CAPTURED_EVENT;
	if (e == CUDA_SUCCESS && (!to || !from->fence || !to->fence || !from->timed || !to->timed))
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS)
		e = query_event(from);
	if (e == CUDA_SUCCESS)
		e = query_event(to);
	if (e == CUDA_SUCCESS)
		*milliseconds = (float)(int64_t)(link_parts.times[to->place] -
						 link_parts.times[from->place]) /
				1e6f;
	return CALL_END(e);
}
