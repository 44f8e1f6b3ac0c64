/* SPDX-License-Identifier: MIT */
/* Events, and their places in the one order of all streams. Called with the lock. */
#pragma once

#include "cuda_work.h"
#include "ipc_event.h"

/* An event's record in a captured stream. */
struct captured_event {
	struct capture *capture; /* NULL: it was not recorded in one */
	struct node_list tips;	 /* the nodes after which it comes */
};

struct event {
	void *handle;
	const struct context *context;
	uint32_t place; /* in link_parts.times, if TIMED */
	bool timed;
	struct captured_event captured;
	uint64_t fence; /* put behind its last record; 0: it was not recorded */
	struct ipc_event shared;
};

/* cuEventCreate(). */
CUresult event_make(CUevent *out, unsigned flags, const struct context *context);
void event_end(struct event *event);
/* Ends all events of CONTEXT. */
void event_end_all(const struct context *context);
/* Takes the event out of its capture. */
void event_forget(struct captured_event *e);
