/* SPDX-License-Identifier: MIT */
/* Instances of graphs: instance.c makes and executes them, update.c changes them. */
#pragma once

#include "graph.h"

struct step {
	struct work work;
	const void *node; /* handle of the node in the graph or in a child */
	enum node_type type;
	uint32_t inner; /* of NODE_GRAPH: number of the following steps that belong to its graph */
	bool disabled;	/* the step does nothing */
};

struct instance {
	void *handle;
	struct step *steps;
	struct user_objects objects; /* objects of its graph and of the graph's children */
	uint32_t n;
	uint64_t flags;	  /* as given by the program */
	uint32_t running; /* launches that wait for functions of the program */
	bool over;	  /* destroyed while RUNNING */
};

/* Makes an instance without a handle. */
CUresult instance_make(struct instance **out, CUgraph graph);
void instance_end(struct instance *x);
/* Begins a call about the instance H, and finds it. OK: whether the call's other arguments are
 * valid. */
CUresult instance_begin(CUgraphExec h, struct instance **x, bool ok);
