/* SPDX-License-Identifier: MIT */
/* Events, and their places in the one order of all streams. Called with the lock. */
#pragma once

#include "cuda_work.h"
#include "ipc_event.h"

/* An event's record in a captured stream. */
struct captured_event {
	struct capture *capture; /* NULL: the event was not recorded in a capture */
	struct node_list tips;	 /* the nodes after which the record comes */
};

struct event {
	void *handle;
	const struct context *context;
	uint32_t place; /* index in link_parts.times, if TIMED */
	bool timed;
	struct captured_event captured;
	uint64_t fence; /* put after the event's last record; 0: it was not recorded */
	struct ipc_event shared;
};

/* Makes an event, as cuEventCreate() does. CONTEXT owns it. */
CUresult event_make(CUevent *out, unsigned flags, const struct context *context);
void event_end(struct event *event);
/* Ends all events of CONTEXT. */
void event_end_all(const struct context *context);
/* Removes the event from its capture. */
void event_forget(struct captured_event *e);
