/* SPDX-License-Identifier: MIT */
/* Events of several processes of the VF. A process shows an event of its own to others, which open
 * it; then each of them can record it and wait for it. All of this is called with the lock. */
#pragma once

#include "guest.h"
#include "cuda_vf.h"

/* What an event has of this; all of it 0: no other process knows the event. */
struct ipc_event {
	bool may_show, opened; /* of this process; of another */
	struct guest_event at; /* OWNER 0: it was not shown yet */
};

/* Returns whether the VF has such events. */
bool ipc_event_is_there(void);
/* Returns whether another process may know E, and have recorded it. */
bool ipc_event_is_shared(const struct ipc_event *e);
/* E stands for FENCE, of this process. */
void ipc_event_record(const struct ipc_event *e, uint64_t fence);
/* What is put into the ring from now on comes after what E stands for, if others know it. */
CUresult ipc_event_await(const struct ipc_event *e);
/* CUDA_SUCCESS: what E stands for is done, or will not be done any more; CUDA_ERROR_NOT_READY. */
CUresult ipc_event_query(const struct ipc_event *e);
/* Waits for that. */
CUresult ipc_event_wait(const struct ipc_event *e);
/* An event of this process ends for all, one of another for this one. */
void ipc_event_end(const struct ipc_event *e);
