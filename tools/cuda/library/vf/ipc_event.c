/* SPDX-License-Identifier: MIT */
/*
 * Events of several processes of the VF: guest_event_*(). An event that was shown stands for the
 * fence of whichever process has recorded it last. So a process that waits for one never waits for
 * what was not put into a ring before: waits form no circle.
 */
#include "ipc_event.h"

#include <string.h>

#define MAGIC UINT64_C(0x746e657670677631)
#define OPEN_FLAGS 6u /* CU_EVENT_INTERPROCESS and CU_EVENT_DISABLE_TIMING */

/* What is in struct cuda_ipc_event. */
struct shown {
	uint64_t magic;
	struct guest_event at;
};
_Static_assert(sizeof(struct shown) <= sizeof(struct cuda_ipc_event), "CUipcEventHandle");

bool ipc_event_is_there(void)
{
	return pieces_mine() != 0 && guest_has_events(link_guest());
}

bool ipc_event_is_shared(const struct ipc_event *e)
{
	return e->at.owner != 0;
}

void ipc_event_record(const struct ipc_event *e, uint64_t fence)
{
	if (ipc_event_is_shared(e))
		guest_event_record(link_guest(), &e->at, fence);
}

CUresult ipc_event_await(const struct ipc_event *e)
{
	struct guest_fence fence;

	if (!ipc_event_is_shared(e) || !guest_event_last(link_guest(), &e->at, &fence))
		return link_lost();
	return link_await(&fence);
}

CUresult ipc_event_query(const struct ipc_event *e)
{
	struct guest_fence fence;
	bool reached = true;
	CUresult x = link_lost();

	if (x == CUDA_SUCCESS && guest_event_last(link_guest(), &e->at, &fence))
		x = link_any_reached(&fence, &reached);
	return x == CUDA_SUCCESS && !reached ? CUDA_ERROR_NOT_READY : x;
}

CUresult ipc_event_wait(const struct ipc_event *e)
{
	struct guest_fence fence;

	return guest_event_last(link_guest(), &e->at, &fence) ? link_wait_for_any(&fence)
							      : link_lost();
}

void ipc_event_end(const struct ipc_event *e)
{
	if (ipc_event_is_shared(e) && !e->opened)
		guest_event_end(link_guest(), &e->at);
}

/* Makes E known to others, as it was recorded until now. */
static CUresult share(struct ipc_event *e, uint64_t fence)
{
	if (!ipc_event_is_there())
		return table_absent("cuIpcGetEventHandle of a VF that has one process, or of an "
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
	uint64_t fence = 0;
	struct ipc_event *e = stream_shared_event(h, &fence);
	CUresult x = CUDA_SUCCESS;

	if (!e || !e->may_show)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ipc_event_is_shared(e))
		x = share(e, fence);
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
	struct ipc_event *e;
	struct shown s;
	uint64_t fence;
	CUresult x;

	if (!ipc_event_is_there())
		return table_absent("cuIpcOpenEventHandle of a VF that has one process, or of an "
				    "older softgpu");
	memcpy(&s, shown, sizeof(s));
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (s.magic != MAGIC || !guest_event_is(link_guest(), &s.at))
		return CUDA_ERROR_INVALID_HANDLE;
	if (guest_event_is_own(link_guest(), &s.at))
		return CUDA_ERROR_INVALID_CONTEXT;
	x = stream_make_event(out, OPEN_FLAGS, c);
	if (x != CUDA_SUCCESS)
		return x;
	e = stream_shared_event(*out, &fence);
	*e = (struct ipc_event){.opened = true, .at = s.at};
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *out, struct cuda_ipc_event shown)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	return CALL_END(e == CUDA_SUCCESS ? open(out, &shown, c) : e);
}
