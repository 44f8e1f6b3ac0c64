/* SPDX-License-Identifier: MIT */
/* Calls that change what an instance of a graph executes in its next launches. The graph does not
 * change. */
#include "cuda_calls.h"
#include "instance.h"

/* Returns the step of NODE in X, or NULL. */
static struct step *find(const struct instance *x, CUgraphNode node)
{
	uint32_t i;

	for (i = 0; i < x->n; i++)
		if (x->steps[i].node == node)
			return &x->steps[i];
	return NULL;
}

/* Replaces what NODE executes in X. Fails while a launch of X is in progress. */
static CUresult replace(struct instance *x, CUgraphNode node, enum node_type type,
			const struct work *w)
{
	struct step *step = find(x, node);

	if (x->running)
		return CUDA_ERROR_ILLEGAL_STATE;
	return step && step->type == type ? graph_work_replace(&step->work, w)
					  : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_kernel(CUgraphExec h, CUgraphNode node, const struct cuda_kernel_node *p,
			   CUkernel kernel)
{
	struct instance *x;
	struct work w;
	CUresult e = instance_begin(h, &x, p);

	if (e == CUDA_SUCCESS)
		e = nodes_kernel(p, kernel, &w);
	return e == CUDA_SUCCESS ? replace(x, node, NODE_KERNEL, &w) : e;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec h, CUgraphNode node,
					const struct cuda_kernel_node *p)
{
	return CALL_END(set_kernel(h, node, p, NULL));
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec h, CUgraphNode node,
					   const struct cuda_kernel_node_2 *p)
{
	return CALL_END(set_kernel(h, node, p ? &p->base : NULL, p ? p->kernel : NULL));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec h, CUgraphNode node,
					const struct cuda_copy_3d *p, CUcontext context)
{
	struct work w = {.kind = WORK_COPY};
	struct instance *x;
	CUresult e = instance_begin(h, &x, handle_find(HANDLE_CONTEXT, context));

	if (e == CUDA_SUCCESS)
		e = copies_rows(p, &w.copy);
	return CALL_END(e == CUDA_SUCCESS ? replace(x, node, NODE_COPY, &w) : e);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec h, CUgraphNode node,
					const struct cuda_set_node *p, CUcontext context)
{
	struct instance *x;
	struct work w;
	CUresult e = instance_begin(h, &x, handle_find(HANDLE_CONTEXT, context));

	if (e == CUDA_SUCCESS)
		e = nodes_set(p, &w);
	return CALL_END(e == CUDA_SUCCESS ? replace(x, node, NODE_SET, &w) : e);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec h, CUgraphNode node,
				      const struct cuda_host_node *p)
{
	struct instance *x;
	struct work w;
	CUresult e = instance_begin(h, &x, p);

	if (e == CUDA_SUCCESS)
		e = nodes_host(p, &w);
	return CALL_END(e == CUDA_SUCCESS ? replace(x, node, NODE_HOST, &w) : e);
}

static CUresult set_event(CUgraphExec h, CUgraphNode node, enum node_type type,
			  const struct work *w)
{
	struct instance *x;
	CUresult e = instance_begin(h, &x, true);

	if (e == CUDA_SUCCESS && !handle_find(HANDLE_EVENT, w->event))
		e = CUDA_ERROR_INVALID_VALUE;
	return e == CUDA_SUCCESS ? replace(x, node, type, w) : e;
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec h, CUgraphNode node, CUevent event)
{
	const struct work w = {.kind = WORK_EVENT, .event = event};

	return CALL_END(set_event(h, node, NODE_RECORD, &w));
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec h, CUgraphNode node, CUevent event)
{
	const struct work w = {.kind = WORK_WAIT, .event = event};

	return CALL_END(set_event(h, node, NODE_WAIT, &w));
}

/*
 * Makes the N steps at TO, of X, execute the work of GRAPH's nodes. If GRAPH has another shape,
 * returns OTHER and changes nothing. The steps keep their nodes, and stay disabled if they are. The
 * user objects of GRAPH replace all those of X; those of a child are added, because X does not
 * record which ones the former child had.
 */
static CUresult take_over(struct instance *x, struct step *to, uint32_t n, CUgraph graph,
			  CUresult other)
{
	struct user_objects objects;
	struct instance *made;
	CUresult e = instance_make(&made, graph);
	struct work w;
	uint32_t i;

	if (e != CUDA_SUCCESS)
		return e;
	for (i = 0; i < n && i < made->n; i++)
		if (to[i].type != made->steps[i].type || to[i].inner != made->steps[i].inner)
			break;
	if (i < n || i < made->n) {
		instance_end(made);
		return other;
	}
	if (n < x->n && !user_objects_keep(&made->objects, &x->objects, true)) {
		instance_end(made);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	objects = x->objects;
	x->objects = made->objects;
	made->objects = objects;
	for (i = 0; i < n; i++) {
		w = to[i].work;
		to[i].work = made->steps[i].work;
		made->steps[i].work = w;
	}
	instance_end(made);
	return CUDA_SUCCESS;
}

/* GRAPH must have the shape of NODE's own graph, with the nodes in the same order. */
static CUresult set_child(CUgraphExec h, CUgraphNode node, CUgraph graph)
{
	const struct graph *own, *other;
	const struct node *of;
	struct instance *x;
	struct step *step;
	CUresult e = instance_begin(h, &x, true);

	if (e == CUDA_SUCCESS && x->running)
		e = CUDA_ERROR_ILLEGAL_STATE;
	if (e != CUDA_SUCCESS)
		return e;
	of = handle_find(HANDLE_NODE, node);
	own = of ? of->child : NULL;
	other = handle_find(HANDLE_GRAPH, graph);
	step = find(x, node);
	if (!step || !own || !other || !graph_is_like(own, other))
		return CUDA_ERROR_INVALID_VALUE;
	return take_over(x, step + 1, step->inner, graph, CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec h, CUgraphNode node, CUgraph child)
{
	return CALL_END(set_child(h, node, child));
}

/* Begins a call about whether NODE is disabled; only nodes of GPU kernels, copies and sets can
 * be. */
static CUresult begin_enabled(CUgraphExec h, CUgraphNode node, bool ok, struct instance **x,
			      struct step **step)
{
	static const bool may_be[] = {
		[NODE_KERNEL] = true, [NODE_COPY] = true, [NODE_SET] = true, [NODE_RECORD] = false};
	CUresult e = instance_begin(h, x, ok);

	*step = e == CUDA_SUCCESS ? find(*x, node) : NULL;
	return e == CUDA_SUCCESS && (!*step || !may_be[(*step)->type]) ? CUDA_ERROR_INVALID_VALUE
								       : e;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec h, CUgraphNode node, unsigned enabled)
{
	struct instance *x;
	struct step *step;
	CUresult e = begin_enabled(h, node, true, &x, &step);

	if (e == CUDA_SUCCESS && x->running)
		e = CUDA_ERROR_ILLEGAL_STATE;
	if (e == CUDA_SUCCESS)
		step->disabled = !enabled;
	return CALL_END(e);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec h, CUgraphNode node, unsigned *enabled)
{
	struct instance *x;
	struct step *step;
	CUresult e = begin_enabled(h, node, enabled, &x, &step);

	if (e == CUDA_SUCCESS)
		*enabled = !step->disabled;
	return CALL_END(e);
}

/* Makes the instance execute the work of another graph of the same shape. */
static CUresult update(CUgraphExec h, CUgraph graph)
{
	struct instance *x;
	CUresult e = instance_begin(h, &x, true);

	if (e == CUDA_SUCCESS && x->running)
		e = CUDA_ERROR_ILLEGAL_STATE;
	return e == CUDA_SUCCESS
		       ? take_over(x, x->steps, x->n, graph, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
		       : e;
}

/* CUgraphExecUpdateResult: _SUCCESS, _ERROR */
static int result_of(CUresult e)
{
	return e == CUDA_SUCCESS ? 0 : 1;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec h, CUgraph graph, struct cuda_update_result *result)
{
	CUresult e = update(h, graph);

	if (result)
		*result = (struct cuda_update_result){.result = result_of(e)};
	return CALL_END(e);
}

/* The signature of CUDA 10.2, which has no structure for the result. */
CUresult cuGraphExecUpdate(CUgraphExec h, CUgraph graph, CUgraphNode *wrong, int *result)
{
	CUresult e = update(h, graph);

	if (wrong)
		*wrong = NULL;
	if (result)
		*result = result_of(e);
	return CALL_END(e);
}
