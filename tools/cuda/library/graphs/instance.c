/* SPDX-License-Identifier: MIT */
/* Instances of graphs: what their nodes execute, in an order that the edges permit. A launch puts
 * all of it into the ring, and tells the VF once. */
#include "instance.h"
#include "put.h"

#include <stdlib.h>

/* CUgraphInstantiate_flags. Those for freeing memory at a launch, for uploading, and for priorities
 * of nodes have no effect here. */
#define FREE_ON_LAUNCH 1u
#define UPLOAD 2u
#define USE_PRIORITY 8u

void instance_end(struct instance *x)
{
	uint32_t i;

	for (i = 0; i < x->n; i++)
		graph_work_end(&x->steps[i].work);
	user_objects_end(&x->objects);
	free(x->steps);
	free(x);
}

static CUresult append(struct instance *x, const struct graph *g);

/* Adds the N sorted NODES to X. */
static CUresult append_sorted(struct instance *x, struct node *const *nodes, uint32_t n)
{
	CUresult e = CUDA_SUCCESS;
	struct step *more;
	uint32_t i, at;

	for (i = 0; i < n && e == CUDA_SUCCESS; i++) {
		more = realloc(x->steps, (x->n + 1) * sizeof(*more));
		if (!more)
			return CUDA_ERROR_OUT_OF_MEMORY;
		x->steps = more;
		more[x->n] = (struct step){.node = nodes[i]->handle, .type = nodes[i]->type};
		if (!graph_work_copy(&more[x->n].work, &nodes[i]->work))
			return CUDA_ERROR_OUT_OF_MEMORY;
		at = x->n++;
		if (nodes[i]->child)
			e = append(x, nodes[i]->child);
		x->steps[at].inner = x->n - at - 1;
	}
	return e;
}

static CUresult append(struct instance *x, const struct graph *g)
{
	struct node **sorted = malloc((g->n + 1) * sizeof(struct node *));
	CUresult e;

	if (!sorted || !user_objects_keep(&x->objects, &g->objects, true)) {
		free(sorted);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e = graph_sort(g, sorted) ? append_sorted(x, sorted, g->n) : CUDA_ERROR_INVALID_VALUE;
	free(sorted);
	return e;
}

CUresult instance_make(struct instance **out, CUgraph graph)
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
		instance_end(x);
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
		e = instance_make(&x, graph);
	if (e != CUDA_SUCCESS)
		return e;
	x->handle = handle_make(HANDLE_INSTANCE, x);
	if (!x->handle) {
		instance_end(x);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	x->flags = flags & ~(uint64_t)UPLOAD; /* UPLOAD is not a property of the instance */
	*out = x->handle;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, uint64_t flags)
{
	return CALL_END(instantiate(out, graph, flags));
}

/* The signature of CUDA 11, which returns a wrong node. */
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

/* Functions of the program run without the lock; the instance is not freed until they return. */
static CUresult launch(struct instance *x, CUstream h, struct stream *s)
{
	CUresult e = CUDA_SUCCESS, rung;
	uint32_t i;

	x->running++;
	for (i = 0; i < x->n && e == CUDA_SUCCESS; i++) {
		const bool runs_alone = x->steps[i].work.kind == WORK_HOST;

		if (x->steps[i].disabled)
			continue;
		link_hold(!runs_alone);
		e = work_run(&x->steps[i].work);
		if (runs_alone) /* the function may have destroyed the stream */
			s = stream_find(h);
		if (s)
			s->last = link_count();
	}
	link_hold(false);
	rung = link_ring();
	if (--x->running == 0 && x->over)
		instance_end(x);
	return e == CUDA_SUCCESS ? rung : e;
}

CUresult cuGraphLaunch(CUgraphExec h, CUstream s)
{
	struct stream *stream;
	CUresult e = put_begin(s, &stream);
	struct instance *x = handle_find(HANDLE_INSTANCE, h);

	if (e == CUDA_SUCCESS && !x)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		e = stream_is_in(stream, call_current()) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	return CALL_END(e == CUDA_SUCCESS ? launch(x, s, stream) : e);
}

CUresult instance_begin(CUgraphExec h, struct instance **x, bool ok)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	*x = handle_find(HANDLE_INSTANCE, h);
	return e == CUDA_SUCCESS && (!*x || !ok) ? CUDA_ERROR_INVALID_VALUE : e;
}

CUresult cuGraphExecDestroy(CUgraphExec h)
{
	struct instance *x;
	CUresult e = instance_begin(h, &x, true);

	if (e == CUDA_SUCCESS) {
		handle_drop(HANDLE_INSTANCE, h);
		x->over = x->running > 0;
		if (!x->over)
			instance_end(x);
	}
	return CALL_END(e);
}

CUresult cuGraphExecGetFlags(CUgraphExec h, uint64_t *flags)
{
	struct instance *x;
	CUresult e = instance_begin(h, &x, flags);

	if (e == CUDA_SUCCESS)
		*flags = x->flags;
	return CALL_END(e);
}

/* Does nothing, because nothing is uploaded before a launch. */
CUresult cuGraphUpload(CUgraphExec h, CUstream s)
{
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	if (e == CUDA_SUCCESS && !handle_find(HANDLE_INSTANCE, h))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e);
}
