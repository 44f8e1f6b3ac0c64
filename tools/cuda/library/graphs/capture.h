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
	CUgraphNode *handles; /* that were told: see tell_tips() */
};
struct captured_event;

/* E stands for all that S did before. */
CUresult capture_record(struct stream *s, struct captured_event *e);
/* What S does next comes after E, too. */
CUresult capture_wait(struct stream *s, struct captured_event *e);
/* The stream S ends: so does its capture. */
void capture_abandon(struct stream *s);
