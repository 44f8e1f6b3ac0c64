/* SPDX-License-Identifier: MIT */
/* Graphs: captured, and made of nodes. */
#include <stdlib.h>
#include <string.h>

#include "graph_bench.h"

static int calls;

static void count_call(void *data)
{
	calls += *(int *)data;
}

/* Two streams that meet twice, with a function of the program in between. */
static bool captured(void)
{
	struct bench b;
	CUevent fork, join;
	CUgraph graph, info;
	CUgraphExec exec;
	int status, three = 3, i;
	const CUgraphNode *tips;
	uint64_t id;
	size_t n;

	CHECK(bench_open(&b));
	OK(cuEventCreate(&fork, 2));
	OK(cuEventCreate(&join, 2));
	OK(cuStreamIsCapturing(b.s, &status));
	CHECK(status == 0);
	CHECK(cuStreamBeginCapture_v2(NULL, 0) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CHECK(cuStreamEndCapture(b.s, &graph) == CUDA_ERROR_ILLEGAL_STATE);
	OK(cuStreamBeginCapture_v2(b.s, 0));
	CHECK(cuStreamBeginCapture_v2(b.s, 0) == CUDA_ERROR_ILLEGAL_STATE);
	OK(bench_launch(&b, &b.y, &b.x, b.s));
	OK(cuEventRecord(fork, b.s));
	OK(cuStreamWaitEvent(b.t, fork, 0));
	OK(bench_launch(&b, &b.x, &b.y, b.t));
	OK(cuLaunchHostFunc(b.t, count_call, &three));
	OK(cuEventRecord(join, b.t));
	OK(cuStreamWaitEvent(b.s, join, 0));
	OK(cuMemsetD32Async(b.y, 5, 10, b.s));
	OK(bench_launch(&b, &b.y, &b.x, b.s));
	OK(cuStreamGetCaptureInfo_v2(b.s, &status, &id, &info, &tips, &n));
	CHECK(status == 1 && id > 0 && n == 1 && tips[0]);
	CHECK(cuGraphDestroy(info) == CUDA_ERROR_ILLEGAL_STATE);
	CHECK(cuGraphInstantiateWithFlags(&exec, info, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuStreamEndCapture(b.t, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	OK(cuStreamIsCapturing(b.s, &status));
	CHECK(status == 2); /* the other stream had not begun it */
	CHECK(cuStreamEndCapture(b.s, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	CHECK(bench_is_right(&b)); /* nothing was executed */
	for (i = 0; i < 2; i++) {
		OK(cuStreamBeginCapture_v2(b.s, 2));
		OK(bench_launch(&b, &b.y, &b.x, b.s));
		OK(cuEventRecord(fork, b.s));
		OK(cuStreamWaitEvent(b.t, fork, 0));
		OK(bench_launch(&b, &b.x, &b.y, b.t));
		OK(cuLaunchHostFunc(b.t, count_call, &three));
		OK(cuEventRecord(join, b.t));
		if (i == 0) {
			CHECK(cuStreamEndCapture(b.s, &graph) ==
			      CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
			continue;
		}
		OK(cuStreamWaitEvent(b.s, join, 0));
		OK(bench_launch(&b, &b.y, &b.x, b.s));
		OK(cuStreamEndCapture(b.s, &graph));
	}
	OK(cuGraphGetNodes(graph, NULL, &n));
	CHECK(n == 4);
	OK(cuGraphGetRootNodes(graph, NULL, &n));
	CHECK(n == 1);
	OK(cuGraphGetEdges(graph, NULL, NULL, &n));
	CHECK(n == 4); /* the last one comes after both streams */
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	calls = 0;
	for (i = 0; i < 20; i++) {
		OK(cuGraphLaunch(exec, i % 2 ? b.s : NULL));
		bench_host_add(b.host_y, b.host_x);
		bench_host_add(b.host_x, b.host_y);
		bench_host_add(b.host_y, b.host_x);
	}
	CHECK(bench_is_right(&b) && calls == 60);
	OK(cuGraphExecDestroy(exec));
	CHECK(cuGraphLaunch(exec, NULL) == CUDA_ERROR_INVALID_VALUE);
	return sample_end();
}

/* Nodes in another order than that of their edges; children, clones, updates, a circle. */
static bool made_of_nodes(void)
{
	struct bench b;
	CUgraphNode node[6], kernel, wanted;
	struct cuda_kernel_node changed = {.grid = {3, 1, 1}, .block = {128, 1, 1}};
	struct cuda_set_node set = {.value = 9, .unit = 4, .width = BENCH_N, .rows = 1};
	struct cuda_copy_3d copy = {.width = BENCH_N * 4, .rows = 1, .layers = 1};
	CUgraph graph, parent, clone;
	CUgraphExec exec;
	CUcontext context;
	struct cuda_update_result result;
	uint32_t i, copied[BENCH_N];
	size_t n = 6;
	int type;

	CHECK(bench_open(&b));
	OK(cuCtxGetCurrent(&context));
	OK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddEmptyNode(&node[0], graph, &graph, 1) == CUDA_ERROR_INVALID_VALUE);
	/* node 1 comes after node 2, which is made later */
	CHECK(bench_add_node(&b, graph, &node[1], NULL, 0, &b.x, &b.y));
	set.at = b.y;
	OK(cuGraphAddMemsetNode(&node[2], graph, NULL, 0, &set, context));
	OK(cuGraphAddDependencies(graph, &node[2], &node[1], 1));
	CHECK(cuGraphAddDependencies(graph, &node[2], &node[1], 1) == CUDA_ERROR_INVALID_VALUE);
	copy.from.type = 2;
	copy.from.device = b.x;
	copy.to.type = 1;
	copy.to.host = copied;
	OK(cuGraphAddMemcpyNode(&node[3], graph, &node[1], 1, &copy, context));
	OK(cuGraphNodeGetType(node[3], &type));
	CHECK(type == 1);
	OK(cuGraphGetNodes(graph, node, &n));
	CHECK(n == 3 && !node[3] && !node[5]);
	OK(cuGraphGetRootNodes(graph, NULL, &n));
	CHECK(n == 1);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, b.s));
	OK(cuStreamSynchronize(b.s));
	for (i = 0; i < BENCH_N; i++)
		b.host_y[i] = 9;
	bench_host_add(b.host_x, b.host_y);
	CHECK(bench_is_right(&b) && memcmp(copied, b.host_x, BENCH_N * 4) == 0);
	/* another value for the set, and other arguments for the kernel */
	set.value = 100;
	kernel = node[0];
	wanted = node[1];
	OK(cuGraphExecMemsetNodeSetParams(exec, wanted, &set, context));
	CHECK(cuGraphExecMemsetNodeSetParams(exec, kernel, &set, context) ==
	      CUDA_ERROR_INVALID_VALUE);
	changed.function = b.add;
	changed.params = (void *[]){&b.y, &b.x, &b.n};
	OK(cuGraphExecKernelNodeSetParams(exec, kernel, &changed));
	OK(cuGraphLaunch(exec, NULL));
	for (i = 0; i < BENCH_N; i++)
		b.host_y[i] = 100;
	bench_host_add(b.host_y, b.host_x);
	CHECK(bench_is_right(&b));
	/* back to what the graph says */
	OK(cuGraphExecUpdate_v2(exec, graph, &result));
	CHECK(result.result == 0);
	OK(cuGraphLaunch(exec, NULL));
	for (i = 0; i < BENCH_N; i++)
		b.host_y[i] = 9;
	bench_host_add(b.host_x, b.host_y);
	CHECK(bench_is_right(&b));
	OK(cuGraphExecDestroy(exec));
	/* twice the graph in another one */
	OK(cuGraphCreate(&parent, 0));
	OK(cuGraphAddChildGraphNode(&kernel, parent, NULL, 0, graph));
	OK(cuGraphAddChildGraphNode(&wanted, parent, &kernel, 1, graph));
	OK(cuGraphChildGraphNodeGetGraph(kernel, &clone));
	CHECK(cuGraphDestroy(clone) == CUDA_ERROR_ILLEGAL_STATE);
	OK(cuGraphDestroy(graph));
	OK(cuGraphClone(&clone, parent));
	OK(cuGraphDestroy(parent));
	OK(cuGraphInstantiateWithFlags(&exec, clone, 0));
	OK(cuGraphLaunch(exec, NULL));
	bench_host_add(b.host_x, b.host_y);
	bench_host_add(b.host_x, b.host_y);
	CHECK(bench_is_right(&b));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(clone));
	/* a circle */
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddEmptyNode(&node[0], graph, NULL, 0));
	OK(cuGraphAddEmptyNode(&node[1], graph, &node[0], 1));
	OK(cuGraphAddDependencies(graph, &node[1], &node[0], 1));
	CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroyNode(node[1]));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

static void hear(CUstream, CUresult e, void *data)
{
	*(CUresult *)data = e;
}

/* A call that no graph can carry says so, and ends the capture of its stream. */
static bool not_captured(void)
{
	CUresult heard = -1, e;
	CUgraphExec exec;
	CUdeviceptr p, q;
	struct bench b;
	CUgraph graph;
	int i;

	CHECK(bench_open(&b));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	OK(cuMemAllocAsync(&p, 16, b.s));
	for (i = 0; i < 6; i++) {
		OK(cuStreamBeginCapture_v2(b.s, 0));
		OK(bench_launch(&b, &b.x, &b.y, b.s));
		e = i == 0   ? cuMemAllocAsync(&q, 16, b.s)
		    : i == 1 ? cuMemFreeAsync(p, b.s)
		    : i == 2 ? cuStreamAddCallback(b.s, hear, &heard, 0)
		    : i == 3 ? cuGraphLaunch(exec, b.s)
		    : i == 4 ? cuStreamSynchronize(b.s)
			     : cuStreamQuery(b.s);
		CHECK(e == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		CHECK(bench_launch(&b, &b.x, &b.y, b.s) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		CHECK(cuStreamEndCapture(b.s, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		CHECK(!graph);
	}
	OK(cuMemFreeAsync(p, b.s));
	OK(cuGraphExecDestroy(exec));
	CHECK(heard == -1 && bench_is_right(&b));
	return sample_end();
}

/* Captures that end in other ways than they should. */
static bool broken_captures(void)
{
	struct bench b;
	CUgraph graph;
	CUevent event;
	CUstream u;

	CHECK(bench_open(&b));
	OK(cuEventCreate(&event, 0));
	OK(cuStreamBeginCapture_v2(b.s, 0));
	OK(cuEventRecord(event, b.s));
	OK(cuStreamBeginCapture_v2(b.t, 0));
	CHECK(cuStreamWaitEvent(b.t, event, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	CHECK(cuStreamEndCapture(b.t, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuStreamEndCapture(b.s, &graph));
	OK(cuGraphDestroy(graph));
	OK(cuEventQuery(event)); /* it stands for nothing any more */
	/* streams that end while they capture */
	OK(cuStreamCreate(&u, 1));
	OK(cuStreamBeginCapture_v2(u, 0));
	OK(bench_launch(&b, &b.x, &b.y, u));
	OK(cuEventRecord(event, u));
	OK(cuStreamWaitEvent(b.t, event, 0));
	OK(cuStreamDestroy_v2(u));
	OK(cuStreamSynchronize(b.t));
	OK(cuStreamBeginCapture_v2(b.s, 0));
	OK(cuEventRecord(event, b.s));
	OK(cuStreamWaitEvent(b.t, event, 0));
	OK(cuStreamDestroy_v2(b.t));
	CHECK(cuStreamEndCapture(b.s, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuStreamBeginCapture_v2(b.s, 0)); /* the context's end ends it */
	OK(bench_launch(&b, &b.x, &b.y, b.s));
	CHECK(bench_is_right(&b));
	return sample_end();
}

const struct sample_check graphs_checks[] = {
	{"captured graphs", captured},
	{"graphs made of nodes", made_of_nodes},
	{"calls that are not captured", not_captured},
	{"captures that fail", broken_captures},
	{NULL, NULL},
};
