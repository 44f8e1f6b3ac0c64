/* SPDX-License-Identifier: MIT */
/* What an instance of a graph is: instance.c makes and executes it, update.c changes it. */
#pragma once

#include "graph.h"

struct step {
	struct work work;
	const void *node; /* its handle in the graph; of a child's, the child's own */
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

/* An instance without a handle. */
CUresult instance_make(struct instance **out, CUgraph graph);
void instance_end(struct instance *x);
/* Begins a call about an instance. OK: whether its other arguments are right. */
CUresult instance_begin(CUgraphExec h, struct instance **x, bool ok);
