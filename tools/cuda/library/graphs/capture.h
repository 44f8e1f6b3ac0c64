/* SPDX-License-Identifier: MIT */
/* Captures: the calls on a stream become nodes of a graph instead of being executed. Streams that
 * wait for an event of a captured stream join it. All of this is called with the lock. */
#ifndef CUDA_CAPTURE_H
#define CUDA_CAPTURE_H

#include "graph.h"

/* What an event stands for that was recorded in a captured stream. */
struct captured_event {
	struct capture *capture; /* NULL: it was not */
	struct node_list tips;
};

/* Adds W to the graph, behind what S did before. */
CUresult capture_add(struct stream *s, const struct work *w);
/* E stands for all that S did before. */
CUresult capture_record(struct stream *s, struct captured_event *e);
void capture_forget_event(struct captured_event *e);
/* What S does next comes after E, too. */
CUresult capture_wait(struct stream *s, struct captured_event *e);
/* A call that a captured stream cannot carry spoils the capture. Returns its error. */
CUresult capture_break(struct stream *s);
/* The stream S ends: so does its capture. */
void capture_abandon(struct stream *s);

#endif
