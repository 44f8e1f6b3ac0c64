/* SPDX-License-Identifier: MIT */
/*
 * Graphs: nodes, each of which comes after others. graph.c has their structure, nodes.c the calls
 * that add nodes, parameters.c those that change them, instance.c executes them, update.c changes
 * what is executed, capture.c makes graphs from calls, user_object.c has the program's objects that
 * graphs keep.
 */
#pragma once

#include "cuda_work.h"

/* CUgraphNodeType */
enum node_type {
	NODE_KERNEL = 0,
	NODE_COPY,
	NODE_SET,
	NODE_HOST,
	NODE_GRAPH,
	NODE_EMPTY,
	NODE_WAIT,
	NODE_RECORD,
};

struct node {
	void *handle;
	struct graph *graph;
	enum node_type type;
	struct work work;	/* with a copy of its arguments */
	void **list;		/* list of the arguments if the program has queried it, else NULL */
	struct graph *child;	/* graph of a NODE_GRAPH, which owns it */
	struct node_list after; /* the nodes after which it comes */
	void *origin;		/* handle of the node of which this one is a clone, or NULL */
	uint32_t mark;		/* scratch for functions that walk over the graph */
};

/* References to the program's objects that a graph or an instance keeps. */
struct user_object;
struct user_reference {
	struct user_object *object;
	uint64_t count;
};
struct user_objects {
	struct user_reference *of;
	uint32_t n;
};

struct graph {
	void *handle;
	struct user_objects objects;
	struct node **nodes; /* in the order of their creation */
	uint32_t n;
	bool captured; /* a capture adds nodes to it, so no node may be removed */
	bool owned;    /* a node owns it, and ends it */
};

/* Makes a graph with a handle, owned by the caller. Returns NULL if out of memory. */
struct graph *graph_make(void);
/* Ends the graph and its nodes. */
void graph_end(struct graph *g);
struct graph *graph_clone(const struct graph *g);
/* Returns whether A and B, and their children, have the same nodes and edges, in the order of the
 * nodes' creation. What the nodes execute may differ. */
bool graph_is_like(const struct graph *a, const struct graph *b);
/* Makes a node of WORK, whose arguments it copies, after the N nodes AFTER. NULL: out of memory. */
struct node *graph_add(struct graph *g, enum node_type type, const struct work *work,
		       struct node *const *after, uint32_t n);
/* Removes the node from its graph, and frees it. */
void graph_remove(struct node *node);
/* Sorts the nodes of G into OUT, which has room for G->n pointers: each node after those that it
 * comes after. Returns false if there is a circle. */
bool graph_sort(const struct graph *g, struct node **out);
/* Copies W and all that it points to; graph_work_end() frees the copy. Returns false if out of
 * memory. */
bool graph_work_copy(struct work *to, const struct work *w);
void graph_work_end(struct work *w);
/* Replaces TO by a copy of W, if W can be executed. After an error, TO is unchanged. */
CUresult graph_work_replace(struct work *to, const struct work *w);

/* user_object.c: adds references to all objects of FROM to TO. LAUNCHED: TO is an instance's.
 * Returns false if out of memory. */
bool user_objects_keep(struct user_objects *to, const struct user_objects *from, bool launched);
/* Ends the references. Objects that have no other reference are destroyed. */
void user_objects_end(struct user_objects *l);

/* nodes.c: read the node that P describes into *W, which points to the program's arguments. */
CUresult nodes_kernel(const struct cuda_kernel_node *p, CUkernel kernel, struct work *w);
CUresult nodes_set(const struct cuda_set_node *p, struct work *w);
CUresult nodes_host(const struct cuda_host_node *p, struct work *w);
