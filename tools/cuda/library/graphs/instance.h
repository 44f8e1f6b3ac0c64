/* SPDX-License-Identifier: MIT */
/* Instances of graphs: instance.c makes and executes them, update.c changes them. */
#pragma once

#include "graph.h"

struct step {
	struct work work;
	const void *node; /* handle of the node, in the graph or in a child */
	enum node_type type;
	uint32_t inner; /* of NODE_GRAPH: how many of the next steps are its graph's */
	bool disabled;	/* it does nothing */
};

struct instance {
	void *handle;
	struct step *steps;
	struct user_objects objects; /* of its graph, and of the graph's children */
	uint32_t n;
	uint64_t flags;	  /* as the program has them */
	uint32_t running; /* launches that are in progress, while functions of the program run */
	bool over;	  /* destroyed meanwhile */
};

/* Makes an instance without a handle. */
CUresult instance_make(struct instance **out, CUgraph graph);
void instance_end(struct instance *x);
/* Begins a call about an instance. OK: whether its other arguments are right. */
CUresult instance_begin(CUgraphExec h, struct instance **x, bool ok);
