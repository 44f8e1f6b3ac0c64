/* SPDX-License-Identifier: MIT */
/* Graphs: nodes, each of which comes after others. graph.c has their structure, nodes.c the calls
 * that add nodes, parameters.c those that change them, instance.c executes them, update.c changes
 * what is executed, capture.c makes them out of calls, user_object.c has what they keep. */
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
	struct work work;	/* its arguments are its own */
	void **list;		/* of them, once the program has asked; or NULL */
	struct graph *child;	/* of NODE_GRAPH; its own */
	struct node_list after; /* what it comes after */
	void *origin;		/* the handle of what it is a clone of; or NULL */
	uint32_t mark;		/* of whoever goes over the graph */
};

/* Objects of the program that a graph or an instance keeps. */
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
	struct node **nodes; /* in the order of their making */
	uint32_t n;
	bool captured; /* a stream makes it: nothing may go */
	bool owned;    /* a node's: it goes with that */
};

/* A new graph, with a handle; NULL: out of memory. */
struct graph *graph_make(void);
/* Ends the graph and its nodes. */
void graph_end(struct graph *g);
struct graph *graph_clone(const struct graph *g);
/* Returns whether A and B, and their children, have the same nodes and edges, in the order in which
 * the nodes were made: all but what the nodes execute. */
bool graph_is_like(const struct graph *a, const struct graph *b);
/* Makes a node of WORK, whose arguments it copies, after the N nodes AFTER. NULL: out of memory. */
struct node *graph_add(struct graph *g, enum node_type type, const struct work *work,
		       struct node *const *after, uint32_t n);
/* Removes the node from its graph, and frees it. */
void graph_remove(struct node *node);
/* Sorts the nodes of G into OUT, of N pointers: each behind those that it comes after. False: there
 * is a circle. */
bool graph_sort(const struct graph *g, struct node **out);
/* Copies W with what it points to; graph_work_end() frees that. False: out of memory. */
bool graph_work_copy(struct work *to, const struct work *w);
void graph_work_end(struct work *w);
/* Ends TO, which becomes a copy of W if W can be executed. An error changes nothing. */
CUresult graph_work_replace(struct work *to, const struct work *w);

/* user_object.c: adds references to all that FROM has. LAUNCHED: they are an instance's. False: out
 * of memory. */
bool user_objects_keep(struct user_objects *to, const struct user_objects *from, bool launched);
/* Ends the references, and the objects to which they were the last. */
void user_objects_end(struct user_objects *l);

/* nodes.c: the node that P describes; *W points to the program's arguments. */
CUresult nodes_kernel(const struct cuda_kernel_node *p, CUkernel kernel, struct work *w);
CUresult nodes_set(const struct cuda_set_node *p, struct work *w);
CUresult nodes_host(const struct cuda_host_node *p, struct work *w);
