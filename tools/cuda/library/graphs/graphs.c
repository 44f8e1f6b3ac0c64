/* SPDX-License-Identifier: MIT */
/* Calls about graphs, their nodes and edges. */
#include <string.h>

#include "graph.h"

/* Begins a call about the graph H, and finds it. OK: whether the call's other arguments are
 * valid. */
static CUresult begin_graph(CUgraph h, struct graph **g, bool ok)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	*g = handle_find(HANDLE_GRAPH, h);
	return e == CUDA_SUCCESS && (!*g || !ok) ? CUDA_ERROR_INVALID_VALUE : e;
}

static CUresult begin_node(CUgraphNode h, struct node **node, bool ok)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	*node = handle_find(HANDLE_NODE, h);
	return e == CUDA_SUCCESS && (!*node || !ok) ? CUDA_ERROR_INVALID_VALUE : e;
}

CUresult cuGraphCreate(CUgraph *out, unsigned flags)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);
	struct graph *g;

	if (e == CUDA_SUCCESS && (!out || flags))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e != CUDA_SUCCESS)
		return CALL_END(e);
	g = graph_make();
	*out = g ? g->handle : NULL;
	return CALL_END(g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphDestroy(CUgraph graph)
{
	struct graph *g;
	CUresult e = begin_graph(graph, &g, true);

	if (e == CUDA_SUCCESS && (g->captured || g->owned))
		e = CUDA_ERROR_ILLEGAL_STATE;
	if (e == CUDA_SUCCESS)
		graph_end(g);
	return CALL_END(e);
}

CUresult cuGraphClone(CUgraph *out, CUgraph graph)
{
	struct graph *g;
	CUresult e = begin_graph(graph, &g, out);

	if (e == CUDA_SUCCESS) {
		g = graph_clone(g);
		e = g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		*out = g ? g->handle : NULL;
	}
	return CALL_END(e);
}

/* ORIGINAL may have been removed; its handle is never given to another node. */
CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone)
{
	struct graph *g;
	CUresult e = begin_graph(clone, &g, out && original);
	uint32_t i;

	if (e != CUDA_SUCCESS)
		return CALL_END(e);
	for (i = 0; i < g->n; i++)
		if (g->nodes[i]->origin == original)
			break;
	if (i < g->n)
		*out = g->nodes[i]->handle;
	return CALL_END(i < g->n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
	struct node *n;
	CUresult e = begin_node(node, &n, true);

	if (e == CUDA_SUCCESS && n->graph->captured)
		e = CUDA_ERROR_ILLEGAL_STATE;
	if (e == CUDA_SUCCESS)
		graph_remove(n);
	return CALL_END(e);
}

CUresult cuGraphNodeGetType(CUgraphNode node, int *type)
{
	struct node *n;
	CUresult e = begin_node(node, &n, type);

	if (e == CUDA_SUCCESS)
		*type = (int)n->type;
	return CALL_END(e);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out)
{
	struct node *n;
	CUresult e = begin_node(node, &n, out);

	if (e == CUDA_SUCCESS && !n->child)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*out = n->child->handle;
	return CALL_END(e);
}

/* Returns a list as CUDA does: without OUT, *N becomes the number of elements; with OUT, *N is the
 * room in OUT, and unused elements become NULL. */
struct telling {
	CUgraphNode *out;
	size_t room, n;
};

static void tell(struct telling *t, const struct node *node)
{
	if (t->out && t->n < t->room)
		t->out[t->n] = node->handle;
	t->n++;
}

static void told(struct telling *t, size_t *n)
{
	size_t i;

	if (t->out)
		for (i = t->n; i < t->room; i++)
			t->out[i] = NULL;
	*n = t->out && t->n > t->room ? t->room : t->n;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *out, size_t *n)
{
	struct telling t = {out, n ? *n : 0, 0};
	struct graph *g;
	CUresult e = begin_graph(graph, &g, n);
	uint32_t i;

	if (e == CUDA_SUCCESS) {
		for (i = 0; i < g->n; i++)
			tell(&t, g->nodes[i]);
		told(&t, n);
	}
	return CALL_END(e);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *out, size_t *n)
{
	struct telling t = {out, n ? *n : 0, 0};
	struct graph *g;
	CUresult e = begin_graph(graph, &g, n);
	uint32_t i;

	if (e == CUDA_SUCCESS) {
		for (i = 0; i < g->n; i++)
			if (g->nodes[i]->after.n == 0)
				tell(&t, g->nodes[i]);
		told(&t, n);
	}
	return CALL_END(e);
}

static CUresult get_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
	struct telling a = {from, n ? *n : 0, 0}, b = {to, n ? *n : 0, 0};
	struct graph *g;
	CUresult e = begin_graph(graph, &g, n && !from == !to);
	uint32_t i, k;

	if (e != CUDA_SUCCESS)
		return e;
	for (i = 0; i < g->n; i++)
		for (k = 0; k < g->nodes[i]->after.n; k++) {
			tell(&a, g->nodes[i]->after.nodes[k]);
			tell(&b, g->nodes[i]);
		}
	told(&b, n);
	told(&a, n);
	return CUDA_SUCCESS;
}

/* Edges have data from CUDA 12.3 on, which is zero for an ordinary edge. Calls that return edges
 * write zeros; calls that make edges refuse other data. */
static CUresult with_data(CUresult e, struct cuda_edge *data, const size_t *n)
{
	if (e == CUDA_SUCCESS && data)
		memset(data, 0, *n * sizeof(*data));
	return e;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
	return CALL_END(get_edges(graph, from, to, n));
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
			    struct cuda_edge *data, size_t *n)
{
	return CALL_END(with_data(get_edges(graph, from, to, n), data, n));
}

static CUresult get_before(CUgraphNode node, CUgraphNode *out, size_t *n)
{
	struct telling t = {out, n ? *n : 0, 0};
	struct node *of;
	CUresult e = begin_node(node, &of, n);
	uint32_t i;

	if (e == CUDA_SUCCESS) {
		for (i = 0; i < of->after.n; i++)
			tell(&t, of->after.nodes[i]);
		told(&t, n);
	}
	return e;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, size_t *n)
{
	return CALL_END(get_before(node, out, n));
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *out, struct cuda_edge *data,
				       size_t *n)
{
	return CALL_END(with_data(get_before(node, out, n), data, n));
}

static CUresult get_behind(CUgraphNode node, CUgraphNode *out, size_t *n)
{
	struct telling t = {out, n ? *n : 0, 0};
	struct node *of;
	CUresult e = begin_node(node, &of, n);
	uint32_t i;

	if (e == CUDA_SUCCESS) {
		for (i = 0; i < of->graph->n; i++)
			if (node_list_has(&of->graph->nodes[i]->after, of))
				tell(&t, of->graph->nodes[i]);
		told(&t, n);
	}
	return e;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out, size_t *n)
{
	return CALL_END(get_behind(node, out, n));
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *out, struct cuda_edge *data,
					 size_t *n)
{
	return CALL_END(with_data(get_behind(node, out, n), data, n));
}

/* If one edge is invalid, no edge is made. */
static CUresult add_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
	struct node *a, *b;
	struct graph *g;
	CUresult e = begin_graph(graph, &g, n == 0 || (from && to));
	size_t i;

	for (i = 0; i < n && e == CUDA_SUCCESS; i++) {
		a = handle_find(HANDLE_NODE, from[i]);
		b = handle_find(HANDLE_NODE, to[i]);
		if (!a || !b || a == b || a->graph != g || b->graph != g ||
		    node_list_has(&b->after, a))
			e = CUDA_ERROR_INVALID_VALUE;
	}
	for (i = 0; i < n && e == CUDA_SUCCESS; i++) {
		b = handle_find(HANDLE_NODE, to[i]);
		if (!node_list_add(&b->after, handle_find(HANDLE_NODE, from[i])))
			e = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return e;
}

static bool is_edge_twice(const CUgraphNode *from, const CUgraphNode *to, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (from[k] == from[i] && to[k] == to[i])
			return true;
	return false;
}

/* If one edge does not exist, no edge is removed. */
static CUresult remove_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
			     size_t n, bool ok)
{
	struct node *a, *b;
	struct graph *g;
	CUresult e = begin_graph(graph, &g, ok && (n == 0 || (from && to)));
	size_t i;

	for (i = 0; i < n && e == CUDA_SUCCESS; i++) {
		a = handle_find(HANDLE_NODE, from[i]);
		b = handle_find(HANDLE_NODE, to[i]);
		if (!a || !b || b->graph != g || !node_list_has(&b->after, a) ||
		    is_edge_twice(from, to, i))
			e = CUDA_ERROR_INVALID_VALUE;
	}
	for (i = 0; i < n && e == CUDA_SUCCESS; i++) {
		b = handle_find(HANDLE_NODE, to[i]);
		node_list_drop(&b->after, handle_find(HANDLE_NODE, from[i]));
	}
	return e;
}

static CUresult has_plain_data(const struct cuda_edge *data, size_t n)
{
	static const struct cuda_edge plain;
	size_t i;

	for (i = 0; data && i < n; i++)
		if (memcmp(&data[i], &plain, sizeof(plain)) != 0)
			return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				size_t n)
{
	return CALL_END(add_edges(graph, from, to, n));
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				   const struct cuda_edge *data, size_t n)
{
	CUresult e = has_plain_data(data, n);

	return e == CUDA_SUCCESS ? cuGraphAddDependencies(graph, from, to, n) : e;
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				   size_t n)
{
	return CALL_END(remove_edges(graph, from, to, n, true));
}

/* No edge has data that is not 0, so an edge with such data does not exist. */
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				      const struct cuda_edge *data, size_t n)
{
	const bool plain = has_plain_data(data, n) == CUDA_SUCCESS;

	return CALL_END(remove_edges(graph, from, to, n, plain));
}
