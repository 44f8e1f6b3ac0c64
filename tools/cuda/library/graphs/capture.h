/* SPDX-License-Identifier: MIT */
/* Captures: the calls on a stream become nodes of a graph instead of being executed. Streams that
 * wait for an event of a captured stream join it. All of this is called with the lock. */
#pragma once

#include "graph.h"

struct capture {
	struct graph *graph;
	struct stream *origin;
	uint64_t id;
	bool broken;
	CUgraphNode *handles; /* as returned to the program: see tell_tips() */
};
struct captured_event;

/* Records E in the capture of S: E stands for all nodes that S has made so far. */
CUresult capture_record(struct stream *s, struct captured_event *e);
/* Makes the next node of S come after the nodes of E, too. */
CUresult capture_wait(struct stream *s, struct captured_event *e);
/* Ends the capture of the stream S, which is being destroyed. */
void capture_abandon(struct stream *s);
