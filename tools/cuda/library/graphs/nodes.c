/* SPDX-License-Identifier: MIT */
/* Calls that make nodes. */
#include "cuda_calls.h"
#include "graph.h"

/* Writes to AFTER the nodes of G that the handles H name. */
static CUresult find_nodes(const struct graph *g, const CUgraphNode *h, size_t n,
			   struct node_list *after)
{
	struct node *node;
	size_t i;

	if (n && !h)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < n; i++) {
		node = handle_find(HANDLE_NODE, h[i]);
		if (!node || node->graph != g)
			return CUDA_ERROR_INVALID_VALUE;
		if (!node_list_add(after, node))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

/* The description of a new node. */
struct making {
	enum node_type type;
	struct work work;
	const struct graph *child;
};

static CUresult make_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *h, size_t n,
			  const struct making *m)
{
	struct graph *g = handle_find(HANDLE_GRAPH, graph);
	struct node_list after = {0};
	struct node *node;
	CUresult e;

	if (!g || !out)
		return CUDA_ERROR_INVALID_VALUE;
	e = work_check(&m->work);
	if (e == CUDA_SUCCESS)
		e = find_nodes(g, h, n, &after);
	node = e == CUDA_SUCCESS ? graph_add(g, m->type, &m->work, after.nodes, after.n) : NULL;
	node_list_clear(&after);
	if (e == CUDA_SUCCESS && !node)
		e = CUDA_ERROR_OUT_OF_MEMORY;
	if (e != CUDA_SUCCESS)
		return e;
	node->child = m->child ? graph_clone(m->child) : NULL;
	if (m->child && !node->child) {
		graph_remove(node);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (node->child)
		node->child->owned = true;
	*out = node->handle;
	return CUDA_SUCCESS;
}

CUresult nodes_kernel(const struct cuda_kernel_node *p, CUkernel kernel, struct work *w)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	*w = (struct work){.kind = WORK_LAUNCH};
	w->launch = (struct work_launch){
		.function = p->function ? p->function : kernel,
		.grid = {p->grid[0], p->grid[1], p->grid[2]},
		.block = {p->block[0], p->block[1], p->block[2]},
		.shared = p->shared,
	};
	if (!handle_find(HANDLE_FUNCTION, w->launch.function))
		return CUDA_ERROR_INVALID_HANDLE;
	return launch_take(&w->launch, p->params, p->extra);
}

static CUresult add_kernel(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
			   const struct cuda_kernel_node *p, CUkernel kernel)
{
	struct making m = {.type = NODE_KERNEL};
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS)
		e = nodes_kernel(p, kernel, &m.work);
	return e == CUDA_SUCCESS ? make_node(out, graph, after, n, &m) : e;
}

CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
			      const struct cuda_kernel_node *p)
{
	return CALL_END(add_kernel(out, graph, after, n, p, NULL));
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
				 size_t n, const struct cuda_kernel_node_2 *p)
{
	return CALL_END(
		add_kernel(out, graph, after, n, p ? &p->base : NULL, p ? p->kernel : NULL));
}

/* Begins a call that names a context, which must exist. */
static CUresult begin_with_context(CUcontext context)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	return e == CUDA_SUCCESS && !handle_find(HANDLE_CONTEXT, context)
		       ? CUDA_ERROR_INVALID_CONTEXT
		       : e;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
			      const struct cuda_copy_3d *p, CUcontext context)
{
	struct making m = {.type = NODE_COPY, .work = {.kind = WORK_COPY}};
	CUresult e = begin_with_context(context);

	if (e == CUDA_SUCCESS)
		e = copies_rows(p, &m.work.copy);
	return CALL_END(e == CUDA_SUCCESS ? make_node(out, graph, after, n, &m) : e);
}

CUresult nodes_set(const struct cuda_set_node *p, struct work *w)
{
	if (!p || (p->unit != 1 && p->unit != 2 && p->unit != 4))
		return CUDA_ERROR_INVALID_VALUE;
	*w = (struct work){
		.kind = WORK_SET,
		.set = {p->at, p->pitch, p->width, p->rows, p->value, p->unit},
	};
	return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
			      const struct cuda_set_node *p, CUcontext context)
{
	struct making m = {.type = NODE_SET};
	CUresult e = begin_with_context(context);

	if (e == CUDA_SUCCESS)
		e = nodes_set(p, &m.work);
	return CALL_END(e == CUDA_SUCCESS ? make_node(out, graph, after, n, &m) : e);
}

CUresult nodes_host(const struct cuda_host_node *p, struct work *w)
{
	if (!p || !p->run)
		return CUDA_ERROR_INVALID_VALUE;
	*w = (struct work){.kind = WORK_HOST, .host = {p->run, p->data}};
	return CUDA_SUCCESS;
}

CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
			    const struct cuda_host_node *p)
{
	struct making m = {.type = NODE_HOST};
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS)
		e = nodes_host(p, &m.work);
	return CALL_END(e == CUDA_SUCCESS ? make_node(out, graph, after, n, &m) : e);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n)
{
	const struct making m = {.type = NODE_EMPTY};
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	return CALL_END(e == CUDA_SUCCESS ? make_node(out, graph, after, n, &m) : e);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
				  size_t n, CUgraph child)
{
	struct making m = {.type = NODE_GRAPH};
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	m.child = handle_find(HANDLE_GRAPH, child);
	if (e == CUDA_SUCCESS && (!m.child || child == graph))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e == CUDA_SUCCESS ? make_node(out, graph, after, n, &m) : e);
}

static CUresult add_event(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
			  const struct making *m)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS && !handle_find(HANDLE_EVENT, m->work.event))
		e = CUDA_ERROR_INVALID_HANDLE;
	return e == CUDA_SUCCESS ? make_node(out, graph, after, n, m) : e;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
				   size_t n, CUevent event)
{
	const struct making m = {.type = NODE_RECORD, .work = {.kind = WORK_EVENT, .event = event}};

	return CALL_END(add_event(out, graph, after, n, &m));
}

/* A record of this process comes before the whole graph, in the one order of all streams. */
CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
				 size_t n, CUevent event)
{
	const struct making m = {.type = NODE_WAIT, .work = {.kind = WORK_WAIT, .event = event}};

	return CALL_END(add_event(out, graph, after, n, &m));
}
