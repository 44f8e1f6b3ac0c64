/* SPDX-License-Identifier: MIT */
/* Instances of graphs: what their nodes execute, in an order that the edges permit. A launch puts
 * all of it into the ring, and tells the VF once. */
#include <stdlib.h>

#include "graph.h"

/* CUgraphInstantiate_flags: what frees memory at a launch, uploads, or uses the nodes' priorities
 * has nothing to do here. */
#define FREE_ON_LAUNCH 1u
#define UPLOAD 2u
#define USE_PRIORITY 8u

struct step {
	struct work work;
	const void *node; /* its handle in the graph; of a child's, the child's own */
	enum node_type type;
};

struct instance {
	void *handle;
	struct step *steps;
	uint32_t n;
	uint32_t running; /* launches that are in progress, while functions of the program run */
	bool over;	  /* destroyed meanwhile */
};

static void end(struct instance *x)
{
	uint32_t i;

	for (i = 0; i < x->n; i++)
		graph_work_end(&x->steps[i].work);
	free(x->steps);
	free(x);
}

static CUresult append(struct instance *x, const struct graph *g);

/* Adds the N sorted nodes. */
static CUresult append_sorted(struct instance *x, struct node *const *nodes, uint32_t n)
{
	CUresult e = CUDA_SUCCESS;
	struct step *more;
	uint32_t i;

	for (i = 0; i < n && e == CUDA_SUCCESS; i++) {
		more = realloc(x->steps, (x->n + 1) * sizeof(*more));
		if (!more)
			return CUDA_ERROR_OUT_OF_MEMORY;
		x->steps = more;
		more[x->n].node = nodes[i]->handle;
		more[x->n].type = nodes[i]->type;
		if (!graph_work_copy(&more[x->n].work, &nodes[i]->work))
			return CUDA_ERROR_OUT_OF_MEMORY;
		x->n++;
		if (nodes[i]->child)
			e = append(x, nodes[i]->child);
	}
	return e;
}

static CUresult append(struct instance *x, const struct graph *g)
{
	struct node **sorted = malloc((g->n + 1) * sizeof(struct node *));
	CUresult e;

	if (!sorted)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = graph_sort(g, sorted) ? append_sorted(x, sorted, g->n) : CUDA_ERROR_INVALID_VALUE;
	free(sorted);
	return e;
}

static CUresult make(struct instance **out, CUgraph graph)
{
	struct graph *g = handle_find(HANDLE_GRAPH, graph);
	struct instance *x;
	CUresult e;

	if (!g || g->captured)
		return CUDA_ERROR_INVALID_VALUE;
	x = calloc(1, sizeof(*x));
	if (!x)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e = append(x, g);
	if (e != CUDA_SUCCESS)
		end(x);
	else
		*out = x;
	return e;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, uint64_t flags)
{
	struct instance *x;
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && !out)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && flags & ~(uint64_t)(FREE_ON_LAUNCH | UPLOAD | USE_PRIORITY))
		e = CUDA_ERROR_NOT_SUPPORTED;
	if (e == CUDA_SUCCESS)
		e = make(&x, graph);
	if (e != CUDA_SUCCESS)
		return e;
	x->handle = handle_make(HANDLE_INSTANCE, x);
	if (!x->handle) {
		end(x);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = x->handle;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, uint64_t flags)
{
	return CALL_END(instantiate(out, graph, flags));
}

/* The signature of CUDA 11, which names a node that is wrong. */
CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *wrong, char *log,
			       size_t log_size)
{
	if (wrong)
		*wrong = NULL;
	if (log && log_size)
		*log = 0;
	return CALL_END(instantiate(out, graph, 0));
}
CALL_FIRST(cuGraphInstantiate, cuGraphInstantiate_v2);

CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, struct cuda_instantiate *p)
{
	CUresult e;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	e = instantiate(out, graph, p->flags);
	p->error_node = NULL;
	p->result = e == CUDA_SUCCESS ? 0 : 1; /* CUDA_GRAPH_INSTANTIATE_SUCCESS, ERROR */
	return CALL_END(e);
}

/* Functions of the program run without the lock: the instance stays until they are done. */
static CUresult launch(struct instance *x, CUstream h, struct stream *s)
{
	CUresult e = CUDA_SUCCESS, rung;
	uint32_t i;

	x->running++;
	for (i = 0; i < x->n && e == CUDA_SUCCESS; i++) {
		const bool runs_alone = x->steps[i].work.kind == WORK_HOST;

		link_hold(!runs_alone);
		e = work_run(&x->steps[i].work);
		if (runs_alone) /* the stream may have gone */
			s = stream_find(h);
		if (s)
			s->last = link_count();
	}
	link_hold(false);
	rung = link_ring();
	if (--x->running == 0 && x->over)
		end(x);
	return e == CUDA_SUCCESS ? rung : e;
}

CUresult cuGraphLaunch(CUgraphExec h, CUstream s)
{
	struct stream *stream;
	CUresult e = work_begin_now(s, &stream);
	struct instance *x = handle_find(HANDLE_INSTANCE, h);

	if (e == CUDA_SUCCESS && !x)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		e = stream_is_in(stream, call_current()) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	return CALL_END(e == CUDA_SUCCESS ? launch(x, s, stream) : e);
}

/* Begins a call about an instance. */
static CUresult begin(CUgraphExec h, struct instance **x, bool ok)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	*x = handle_find(HANDLE_INSTANCE, h);
	return e == CUDA_SUCCESS && (!*x || !ok) ? CUDA_ERROR_INVALID_VALUE : e;
}

CUresult cuGraphExecDestroy(CUgraphExec h)
{
	struct instance *x;
	CUresult e = begin(h, &x, true);

	if (e == CUDA_SUCCESS) {
		handle_drop(HANDLE_INSTANCE, h);
		x->over = x->running > 0;
		if (!x->over)
			end(x);
	}
	return CALL_END(e);
}

/* There is nothing to upload before a launch. */
CUresult cuGraphUpload(CUgraphExec h, CUstream s)
{
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	if (e == CUDA_SUCCESS && !handle_find(HANDLE_INSTANCE, h))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e);
}

/* Replaces what NODE executes in X. While a launch is in progress, nothing may be replaced. */
static CUresult replace(struct instance *x, CUgraphNode node, enum node_type type,
			const struct work *w)
{
	struct work made;
	CUresult e = work_check(w);
	uint32_t i;

	if (e != CUDA_SUCCESS)
		return e;
	if (x->running)
		return CUDA_ERROR_ILLEGAL_STATE;
	for (i = 0; i < x->n; i++)
		if (x->steps[i].node == node && x->steps[i].type == type)
			break;
	if (i == x->n)
		return CUDA_ERROR_INVALID_VALUE;
	if (!graph_work_copy(&made, w))
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* an attribute of the node, which its parameters do not have */
	if (type == NODE_KERNEL)
		made.launch.together = x->steps[i].work.launch.together;
	graph_work_end(&x->steps[i].work);
	x->steps[i].work = made;
	return CUDA_SUCCESS;
}

static CUresult set_kernel(CUgraphExec h, CUgraphNode node, const struct cuda_kernel_node *p,
			   CUkernel kernel)
{
	struct instance *x;
	struct work w;
	CUresult e = begin(h, &x, p);

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
	CUresult e = begin(h, &x, handle_find(HANDLE_CONTEXT, context));

	if (e == CUDA_SUCCESS)
		e = copies_rows(p, &w.copy);
	return CALL_END(e == CUDA_SUCCESS ? replace(x, node, NODE_COPY, &w) : e);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec h, CUgraphNode node,
					const struct cuda_set_node *p, CUcontext context)
{
	struct instance *x;
	struct work w;
	CUresult e = begin(h, &x, handle_find(HANDLE_CONTEXT, context));

	if (e == CUDA_SUCCESS)
		e = nodes_set(p, &w);
	return CALL_END(e == CUDA_SUCCESS ? replace(x, node, NODE_SET, &w) : e);
}

/* Takes over what another graph of the same shape executes. */
static CUresult update(CUgraphExec h, CUgraph graph)
{
	struct instance *x, *made;
	CUresult e = begin(h, &x, true);
	struct step *steps;
	uint32_t i, n;

	if (e == CUDA_SUCCESS && x->running)
		e = CUDA_ERROR_ILLEGAL_STATE;
	if (e == CUDA_SUCCESS)
		e = make(&made, graph);
	if (e != CUDA_SUCCESS)
		return e;
	for (i = 0; i < x->n && i < made->n; i++)
		if (x->steps[i].type != made->steps[i].type)
			break;
	if (i == x->n && i == made->n) {
		for (i = 0; i < x->n; i++)
			made->steps[i].node = x->steps[i].node;
		steps = x->steps;
		n = x->n;
		x->steps = made->steps;
		made->steps = steps;
		made->n = n;
	} else {
		e = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	end(made);
	return e;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec h, CUgraph graph, struct cuda_update_result *result)
{
	CUresult e = update(h, graph);

	if (result)
		*result = (struct cuda_update_result){
			.result = e == CUDA_SUCCESS ? 0 : 1}; /* _SUCCESS, _ERROR */
	return CALL_END(e);
}
