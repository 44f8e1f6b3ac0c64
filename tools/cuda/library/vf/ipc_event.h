/* SPDX-License-Identifier: MIT */
/* Events of several processes of the VF. A process makes an event of its own available to others,
 * which open it; then each of them can record it and wait for it. All functions are called with the
 * lock. */
#pragma once

#include "guest.h"
#include "cuda_vf.h"

/* The shared part of an event; if all members are 0, no other process has the event. */
struct ipc_event {
	bool may_show, opened; /* made here, with export allowed; opened from another process */
	struct guest_event at; /* OWNER 0: it is not available to other processes yet */
};

/* Returns whether the VF supports such events. */
bool ipc_event_is_there(void);
/* Returns whether another process may have opened E, and may have recorded it. */
bool ipc_event_is_shared(const struct ipc_event *e);
/* Records E with FENCE, of this process. */
void ipc_event_record(const struct ipc_event *e, uint64_t fence);
/* If another process may have E, puts a wait for its last record into the ring: later packets run
 * after that record. */
CUresult ipc_event_await(const struct ipc_event *e);
/* Returns CUDA_SUCCESS if the work before E's last record has ended, or the recording process has;
 * CUDA_ERROR_NOT_READY; or another error. */
CUresult ipc_event_query(const struct ipc_event *e);
/* Waits until the work before E's last record has ended, or the recording process has. */
CUresult ipc_event_wait(const struct ipc_event *e);
/* Ends E: an event of this process for all processes, an opened one for this process. */
void ipc_event_end(const struct ipc_event *e);
