/* SPDX-License-Identifier: MIT */
/* Calls that return and change the parameters of a graph's nodes. Instances that were made before
 * do not change. */
#include <stdlib.h>

#include "cuda_calls.h"
#include "graph.h"

/* Begins a call about a node of TYPE, and finds it. OK: whether the call's other arguments are
 * valid. */
static CUresult begin_node_of(CUgraphNode h, enum node_type type, bool ok, struct node **node)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	*node = handle_find(HANDLE_NODE, h);
	return e == CUDA_SUCCESS && (!*node || (*node)->type != type || !ok)
		       ? CUDA_ERROR_INVALID_VALUE
		       : e;
}

/* Replaces the work of NODE by W. */
static CUresult set(struct node *node, const struct work *w)
{
	CUresult e = graph_work_replace(&node->work, w);

	if (e != CUDA_SUCCESS)
		return e;
	free(node->list);
	node->list = NULL;
	return CUDA_SUCCESS;
}

/* A function and a kernel have one handle here, so the function is returned, whichever the program
 * set. The list of arguments stays valid until the node changes. */
static CUresult get_kernel(CUgraphNode h, struct cuda_kernel_node *p)
{
	const struct work_launch *l;
	struct node *node;
	CUresult e = begin_node_of(h, NODE_KERNEL, p, &node);

	if (e == CUDA_SUCCESS && !node->list)
		e = launch_list(&node->work.launch, &node->list);
	if (e != CUDA_SUCCESS)
		return e;
	l = &node->work.launch;
	*p = (struct cuda_kernel_node){
		.function = l->function,
		.grid = {l->grid[0], l->grid[1], l->grid[2]},
		.block = {l->block[0], l->block[1], l->block[2]},
		.shared = l->shared,
		.params = l->in_buffer ? NULL : node->list,
		.extra = l->in_buffer ? node->list : NULL,
	};
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, struct cuda_kernel_node *p)
{
	return CALL_END(get_kernel(node, p));
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, struct cuda_kernel_node_2 *p)
{
	CUresult e = get_kernel(node, p ? &p->base : NULL);

	if (e == CUDA_SUCCESS) {
		p->kernel = NULL;
		p->context = NULL;
	}
	return CALL_END(e);
}

static CUresult set_kernel(CUgraphNode h, const struct cuda_kernel_node *p, CUkernel kernel)
{
	struct node *node;
	struct work w;
	CUresult e = begin_node_of(h, NODE_KERNEL, p, &node);

	if (e == CUDA_SUCCESS)
		e = nodes_kernel(p, kernel, &w);
	return e == CUDA_SUCCESS ? set(node, &w) : e;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const struct cuda_kernel_node *p)
{
	return CALL_END(set_kernel(node, p, NULL));
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const struct cuda_kernel_node_2 *p)
{
	return CALL_END(set_kernel(node, p ? &p->base : NULL, p ? p->kernel : NULL));
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode h, struct cuda_copy_3d *p)
{
	struct node *node;
	CUresult e = begin_node_of(h, NODE_COPY, p, &node);

	if (e == CUDA_SUCCESS)
		*p = copies_said(&node->work.copy);
	return CALL_END(e);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode h, const struct cuda_copy_3d *p)
{
	struct work w = {.kind = WORK_COPY};
	struct node *node;
	CUresult e = begin_node_of(h, NODE_COPY, p, &node);

	if (e == CUDA_SUCCESS)
		e = copies_rows(p, &w.copy);
	return CALL_END(e == CUDA_SUCCESS ? set(node, &w) : e);
}

/* A captured write of 64 bits has a value that does not fit into *P. */
static CUresult get_set(CUgraphNode h, struct cuda_set_node *p)
{
	const struct work_set *w;
	struct node *node;
	CUresult e = begin_node_of(h, NODE_SET, p, &node);

	if (e != CUDA_SUCCESS)
		return e;
	w = &node->work.set;
	if (w->unit > sizeof(p->value))
		return CUDA_ERROR_NOT_SUPPORTED;
	*p = (struct cuda_set_node){
		.at = w->at,
		.pitch = w->pitch,
		.value = (unsigned)w->value,
		.unit = w->unit,
		.width = w->width,
		.rows = w->rows,
	};
	return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, struct cuda_set_node *p)
{
	return CALL_END(get_set(node, p));
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode h, const struct cuda_set_node *p)
{
	struct node *node;
	struct work w;
	CUresult e = begin_node_of(h, NODE_SET, p, &node);

	if (e == CUDA_SUCCESS)
		e = nodes_set(p, &w);
	return CALL_END(e == CUDA_SUCCESS ? set(node, &w) : e);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode h, struct cuda_host_node *p)
{
	struct node *node;
	CUresult e = begin_node_of(h, NODE_HOST, p, &node);

	if (e == CUDA_SUCCESS)
		*p = (struct cuda_host_node){node->work.host.run, node->work.host.data};
	return CALL_END(e);
}

CUresult cuGraphHostNodeSetParams(CUgraphNode h, const struct cuda_host_node *p)
{
	struct node *node;
	struct work w;
	CUresult e = begin_node_of(h, NODE_HOST, p, &node);

	if (e == CUDA_SUCCESS)
		e = nodes_host(p, &w);
	return CALL_END(e == CUDA_SUCCESS ? set(node, &w) : e);
}

static CUresult get_event(CUgraphNode h, enum node_type type, CUevent *event)
{
	struct node *node;
	CUresult e = begin_node_of(h, type, event, &node);

	if (e == CUDA_SUCCESS)
		*event = node->work.event;
	return e;
}

static CUresult set_event(CUgraphNode h, enum node_type type, CUevent event)
{
	struct node *node;
	CUresult e = begin_node_of(h, type, true, &node);

	if (e == CUDA_SUCCESS && !handle_find(HANDLE_EVENT, event))
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS)
		node->work.event = event;
	return e;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
	return CALL_END(get_event(node, NODE_RECORD, event));
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
	return CALL_END(set_event(node, NODE_RECORD, event));
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
	return CALL_END(get_event(node, NODE_WAIT, event));
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
	return CALL_END(set_event(node, NODE_WAIT, event));
}
