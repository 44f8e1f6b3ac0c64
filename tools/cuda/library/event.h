/* SPDX-License-Identifier: MIT */
/* Events: what each has, and what becomes of it in the order of all streams. With the lock. */
#pragma once

#include "cuda_work.h"
#include "ipc_event.h"

/* What an event stands for that was recorded in a captured stream. */
struct captured_event {
	struct capture *capture; /* NULL: it was not */
	struct node_list tips;
};

struct event {
	void *handle;
	const struct context *context;
	uint32_t place; /* in the times, if it is timed */
	bool timed;
	struct captured_event captured;
	uint64_t fence; /* behind its last record; 0: it was not recorded */
	struct ipc_event shared;
};

/* cuEventCreate(). */
CUresult event_make(CUevent *out, unsigned flags, const struct context *context);
void event_end(struct event *event);
/* Ends all events of CONTEXT. */
void event_end_all(const struct context *context);
/* Takes the event out of its capture. */
void event_forget(struct captured_event *e);
