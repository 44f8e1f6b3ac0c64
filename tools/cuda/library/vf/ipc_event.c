/* SPDX-License-Identifier: MIT */
/*
 * Events of several processes of the VF: guest_event_*(). A shared event stands for the fence of
 * the process that has recorded it last. So a process that waits for it only waits for work that is
 * already in a ring, and waits cannot form a circle.
 */
#include "ipc_event.h"

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
