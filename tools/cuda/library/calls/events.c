/* SPDX-License-Identifier: MIT */
/* Calls about events. A stream never waits for an event, unless another process has recorded it:
 * the VF executes everything in the order of the calls, whatever their streams. */
#include <string.h>

#include "capture.h"
#include "cuda_calls.h"
#include "event.h"
#include "put.h"

#define EXTERNAL 1u /* the event becomes a node of the captured graph and orders no other nodes */

static bool flags_fit(const struct stream *stream, unsigned flags)
{
	return flags == 0 || (flags == EXTERNAL && stream->capture);
}

/* Later work of any stream runs after the record anyway, so only an event that another process may
 * have recorded needs a wait. In a capture nothing runs: the stream joins the event's capture. */
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
		e = put_work(stream, &w);
	return CALL_END(e);
}

CUresult cuEventCreate(CUevent *out, unsigned flags)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	return CALL_END(e == CUDA_SUCCESS ? event_make(out, flags, c) : e);
}

/* Begins a call about the event H, and finds it. */
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
		event_end(event);
	return CALL_END(e);
}
CALL_FIRST(cuEventDestroy, cuEventDestroy_v2);

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
		return put_work(stream, &w);
	event_forget(&event->captured);
	if (stream->capture)
		return capture_record(stream, &event->captured);
	return put_work(stream, &w);
}

CUresult cuEventRecord(CUevent h, CUstream s)
{
	return CALL_END(record(h, s, 0));
}

CUresult cuEventRecordWithFlags(CUevent h, CUstream s, unsigned flags)
{
	return CALL_END(record(h, s, flags));
}

/* Returns CUDA_SUCCESS if EVENT was reached, or never recorded; CUDA_ERROR_NOT_READY; or another
 * error. */
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

#define MAGIC UINT64_C(0x746e657670677631)
#define OPEN_FLAGS 6u /* CU_EVENT_INTERPROCESS and CU_EVENT_DISABLE_TIMING */

/* The contents of struct cuda_ipc_event. */
struct shown {
	uint64_t magic;
	struct guest_event at;
};
_Static_assert(sizeof(struct shown) <= sizeof(struct cuda_ipc_event), "CUipcEventHandle");

/* Makes E, with its last record, available to the other processes of the VF. */
static CUresult share(struct ipc_event *e, uint64_t fence)
{
	if (!ipc_event_is_there())
		return log_absent("cuIpcGetEventHandle of a VF that has one process, or of an "
				  "older softgpu");
	if (guest_event_make(link_guest(), &e->at) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (fence)
		ipc_event_record(e, fence);
	return CUDA_SUCCESS;
}

static CUresult show(struct cuda_ipc_event *out, CUevent h)
{
	struct shown s = {.magic = MAGIC};
	struct event *event = handle_find(HANDLE_EVENT, h);
	struct ipc_event *e = event ? &event->shared : NULL;
	CUresult x = CUDA_SUCCESS;

	if (!e || !e->may_show)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ipc_event_is_shared(e))
		x = share(e, event->fence);
	if (x != CUDA_SUCCESS)
		return x;
	s.at = e->at;
	*out = (struct cuda_ipc_event){{0}};
	memcpy(out, &s, sizeof(s));
	return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(struct cuda_ipc_event *out, CUevent h)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	return CALL_END(e == CUDA_SUCCESS ? show(out, h) : e);
}

static CUresult open(CUevent *out, const struct cuda_ipc_event *shown, const struct context *c)
{
	struct event *event;
	struct shown s;
	CUresult x;

	if (!ipc_event_is_there())
		return log_absent("cuIpcOpenEventHandle of a VF that has one process, or of an "
				  "older softgpu");
	memcpy(&s, shown, sizeof(s));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (s.magic != MAGIC || !guest_event_is(link_guest(), &s.at))
		return CUDA_ERROR_INVALID_HANDLE;
	if (guest_event_is_own(link_guest(), &s.at))
		return CUDA_ERROR_INVALID_CONTEXT;
	x = event_make(out, OPEN_FLAGS, c);
	if (x != CUDA_SUCCESS)
		return x;
	event = handle_find(HANDLE_EVENT, *out);
	event->shared = (struct ipc_event){.opened = true, .at = s.at};
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *out, struct cuda_ipc_event shown)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	return CALL_END(e == CUDA_SUCCESS ? open(out, &shown, c) : e);
}
