/* SPDX-License-Identifier: MIT */
/* Objects of the program that graphs keep: when the program's function destroys them. */
#include <limits.h>

#include "graph_bench.h"

struct seen {
	int destroyed;
};

static void end(void *data)
{
	struct seen *s = data;
	CUcontext c;

	s->destroyed++;
	cuCtxGetCurrent(&c); /* waits for the library's lock, which nobody has */
}

static void nothing(void *)
{
}

static bool counted(void)
{
	struct seen s = {0};
	CUuserObject o;

	CHECK(sample_begin());
	CHECK(cuUserObjectCreate(NULL, &s, end, 1, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuUserObjectCreate(&o, &s, NULL, 1, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuUserObjectCreate(&o, &s, end, 0, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuUserObjectCreate(&o, &s, end, INT_MAX + 1u, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuUserObjectCreate(&o, &s, end, 1, 0) == CUDA_ERROR_INVALID_VALUE);
	OK(cuUserObjectCreate(&o, &s, end, 2, 1));
	OK(cuUserObjectRetain(o, 3));
	CHECK(cuUserObjectRetain(o, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuUserObjectRetain(o, INT_MAX + 1u) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuUserObjectRelease(o, 6) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuUserObjectRelease(o, 0) == CUDA_ERROR_INVALID_VALUE);
	OK(cuUserObjectRelease(o, 4));
	CHECK(s.destroyed == 0);
	OK(cuUserObjectRelease(o, 1));
	CHECK(s.destroyed == 1);
	CHECK(cuUserObjectRelease(o, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuUserObjectRetain(o, 1) == CUDA_ERROR_INVALID_VALUE);
	return sample_end();
}

static bool of_a_graph(void)
{
	struct seen s = {0}, t = {0};
	CUuserObject o, p;
	CUgraph graph, copy;

	CHECK(sample_begin());
	OK(cuGraphCreate(&graph, 0));
	OK(cuUserObjectCreate(&o, &s, end, 2, 1));
	OK(cuUserObjectCreate(&p, &t, end, 1, 1));
	CHECK(cuGraphRetainUserObject(NULL, o, 1, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphRetainUserObject(graph, graph, 1, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphRetainUserObject(graph, o, 1, 2) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphRetainUserObject(graph, o, 3, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphReleaseUserObject(graph, o, 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphRetainUserObject(graph, o, 2, 1)); /* the program has none any more */
	CHECK(cuUserObjectRelease(o, 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphRetainUserObject(graph, o, 2, 0));
	OK(cuGraphRetainUserObject(graph, p, 1, 0));
	CHECK(cuGraphReleaseUserObject(graph, o, 5) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphReleaseUserObject(NULL, o, 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphReleaseUserObject(graph, o, 1));
	OK(cuGraphClone(&copy, graph));
	OK(cuGraphReleaseUserObject(graph, o, 3));
	CHECK(cuGraphReleaseUserObject(graph, o, 1) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroy(graph));
	CHECK(s.destroyed == 0);
	OK(cuGraphReleaseUserObject(copy, p, 1));
	CHECK(t.destroyed == 0);
	OK(cuUserObjectRelease(p, 1));
	CHECK(t.destroyed == 1);
	OK(cuGraphDestroy(copy));
	CHECK(s.destroyed == 1 && t.destroyed == 1);
	return sample_end();
}

/* An instance keeps what its graph and the graph's children have had, until it is destroyed or
 * updated. */
static bool of_an_instance(void)
{
	struct seen s = {0}, t = {0}, u = {0};
	CUuserObject o, p, q;
	CUgraph graph, child, other;
	CUgraphNode node;
	CUgraphExec exec;

	CHECK(sample_begin());
	OK(cuUserObjectCreate(&o, &s, end, 1, 1));
	OK(cuUserObjectCreate(&p, &t, end, 1, 1));
	OK(cuUserObjectCreate(&q, &u, end, 1, 1));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphCreate(&child, 0));
	OK(cuGraphRetainUserObject(graph, o, 1, 1));
	OK(cuGraphRetainUserObject(child, p, 1, 1));
	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	OK(cuGraphDestroy(child));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	OK(cuGraphLaunch(exec, NULL));
	CHECK(s.destroyed == 0 && t.destroyed == 0);
	/* its child is another one */
	OK(cuGraphCreate(&child, 0));
	OK(cuGraphRetainUserObject(child, q, 1, 1));
	OK(cuGraphCreate(&other, 0));
	OK(cuGraphAddChildGraphNode(&node, other, NULL, 0, child));
	OK(cuGraphDestroy(child));
	OK(cuGraphExecUpdate_v2(exec, other, NULL));
	CHECK(s.destroyed == 1 && t.destroyed == 1);
	OK(cuGraphDestroy(other));
	CHECK(u.destroyed == 0);
	OK(cuGraphExecDestroy(exec));
	CHECK(u.destroyed == 1);
	return sample_end();
}

/* What a child gets is kept, too, beside what there was. */
static bool of_a_new_child(void)
{
	struct seen s = {0}, t = {0};
	CUuserObject o, p;
	CUgraph graph, child;
	CUgraphNode node;
	CUgraphExec exec;

	CHECK(sample_begin());
	OK(cuUserObjectCreate(&o, &s, end, 1, 1));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphCreate(&child, 0));
	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	OK(cuUserObjectCreate(&p, &t, end, 1, 1));
	OK(cuGraphRetainUserObject(graph, p, 1, 1));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphRetainUserObject(child, o, 1, 1));
	OK(cuGraphExecChildGraphNodeSetParams(exec, node, child));
	OK(cuGraphDestroy(child));
	OK(cuGraphDestroy(graph));
	CHECK(s.destroyed == 0 && t.destroyed == 0);
	OK(cuGraphExecDestroy(exec));
	CHECK(s.destroyed == 1 && t.destroyed == 1);
	return sample_end();
}

/* The last reference ends while a launch is not done: the object ends after that. */
static CUevent behind;
static int when_done;

static void look(void *data)
{
	end(data);
	when_done = cuEventQuery(behind);
}

static bool after_the_launch(void)
{
	struct seen s = {0};
	CUuserObject o;
	CUgraph graph;
	CUgraphNode node;
	CUgraphExec exec;
	struct bench b;
	int i;

	CHECK(bench_open(&b));
	OK(cuEventCreate(&behind, 2));
	OK(cuUserObjectCreate(&o, &s, look, 1, 1));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphRetainUserObject(graph, o, 1, 0));
	CHECK(bench_add_node(&b, graph, &node, NULL, 0, &b.x, &b.y));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	for (i = 0; i < 50; i++) {
		OK(cuGraphLaunch(exec, NULL));
		bench_host_add(b.host_x, b.host_y);
	}
	OK(cuEventRecord(behind, NULL));
	OK(cuGraphExecDestroy(exec));
	CHECK(s.destroyed == 0);
	when_done = -1;
	OK(cuUserObjectRelease(o, 1));
	CHECK(s.destroyed == 1 && when_done == CUDA_SUCCESS);
	CHECK(bench_is_right(&b));
	return sample_end();
}

/* A stream that is captured has a graph, too, which may get objects before it is done. */
static bool of_a_capture(void)
{
	struct seen s = {0};
	CUuserObject o;
	CUgraph graph;
	CUstream stream;
	uint64_t id;
	int status;

	CHECK(sample_begin());
	OK(cuUserObjectCreate(&o, &s, end, 1, 1));
	OK(cuStreamCreate(&stream, 1));
	OK(cuStreamBeginCapture_v2(stream, 0));
	OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, NULL, NULL));
	OK(cuGraphRetainUserObject(graph, o, 1, 1));
	OK(cuLaunchHostFunc(stream, nothing, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	CHECK(s.destroyed == 0);
	OK(cuGraphDestroy(graph));
	CHECK(s.destroyed == 1);
	return sample_end();
}

const struct sample_check user_objects_checks[] = {
	{"objects of the program", counted},
	{"objects that graphs keep", of_a_graph},
	{"objects that instances keep", of_an_instance},
	{"objects of a child that changes", of_a_new_child},
	{"objects end when launches are done", after_the_launch},
	{"objects of captures", of_a_capture},
	{NULL, NULL},
};
