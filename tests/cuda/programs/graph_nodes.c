/* SPDX-License-Identifier: MIT */
/* Nodes of graphs that are looked at and changed. */
#include <string.h>

#include "graph_bench.h"

/* Launches GRAPH once. */
static bool run(CUgraph graph)
{
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuGraphExecDestroy(exec));
	return true;
}

/* Whether P has the arguments of bench_launch() for TO and FROM, in a list. */
static bool adds(const struct bench *b, const struct cuda_kernel_node *p, CUdeviceptr to,
		 CUdeviceptr from)
{
	CHECK(p->function == b->add && p->grid[0] == 3 && p->grid[1] == 1 && p->grid[2] == 1);
	CHECK(p->block[0] == 128 && p->block[1] == 1 && p->block[2] == 1 && p->shared == 0);
	CHECK(!p->extra && p->params);
	CHECK(memcmp(p->params[0], &to, 8) == 0 && memcmp(p->params[1], &from, 8) == 0);
	CHECK(memcmp(p->params[2], &b->n, 4) == 0);
	return true;
}

/* Errors change nothing. */
static bool wrong_kernels(struct bench *b, CUgraphNode node, CUgraphNode other)
{
	struct cuda_kernel_node p, q;

	CHECK(cuGraphKernelNodeGetParams(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphKernelNodeSetParams(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphKernelNodeGetParams_v2(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphKernelNodeSetParams_v2(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphKernelNodeGetParams(other, &p) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphKernelNodeGetParams(NULL, &p) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphKernelNodeGetParams(node, &p));
	CHECK(cuGraphKernelNodeSetParams(other, &p) == CUDA_ERROR_INVALID_VALUE);
	q = p;
	q.function = b->module;
	CHECK(cuGraphKernelNodeSetParams(node, &q) == CUDA_ERROR_INVALID_HANDLE);
	q = p;
	q.block[0] = 1025;
	CHECK(cuGraphKernelNodeSetParams(node, &q) == CUDA_ERROR_INVALID_VALUE);
	q = p;
	q.extra = q.params;
	CHECK(cuGraphKernelNodeSetParams(node, &q) == CUDA_ERROR_INVALID_VALUE);
	return adds(b, &p, b->y, b->x);
}

/* A node tells what it is as the program has said it last, and what it told stays valid. */
static bool kernels(void)
{
	struct cuda_kernel_node p, q, changed;
	struct cuda_kernel_node_2 second;
	CUgraphNode node, other;
	CUgraph graph, clone;
	struct {
		CUdeviceptr to, from;
		uint32_t n;
	} args;
	size_t size = 20;
	void *extra[] = {(void *)1, &args, (void *)2, &size, NULL};
	struct bench b;

	CHECK(bench_open(&b));
	args.to = b.x;
	args.from = b.y;
	args.n = BENCH_N;
	OK(cuGraphCreate(&graph, 0));
	CHECK(bench_add_node(&b, graph, &node, NULL, 0, &b.y, &b.x));
	OK(cuGraphAddEmptyNode(&other, graph, &node, 1));
	OK(cuGraphKernelNodeGetParams(node, &p));
	CHECK(adds(&b, &p, b.y, b.x));
	OK(cuGraphKernelNodeGetParams(node, &q));
	CHECK(adds(&b, &p, b.y, b.x) && adds(&b, &q, b.y, b.x));
	OK(cuGraphClone(&clone, graph));
	CHECK(wrong_kernels(&b, node, other));
	CHECK(run(graph));
	bench_host_add(b.host_y, b.host_x);
	CHECK(bench_is_right(&b));
	/* arguments in a buffer; the clone has those from before */
	changed = p;
	changed.params = NULL;
	changed.extra = extra;
	OK(cuGraphKernelNodeSetParams(node, &changed));
	memset(&args, 0, sizeof(args));
	CHECK(run(graph) && run(clone));
	bench_host_add(b.host_x, b.host_y);
	bench_host_add(b.host_y, b.host_x);
	CHECK(bench_is_right(&b));
	OK(cuGraphKernelNodeGetParams(node, &p));
	CHECK(!p.params && p.extra[0] == (void *)1 && p.extra[2] == (void *)2 && !p.extra[4]);
	CHECK(*(size_t *)p.extra[3] == 20 && memcmp(p.extra[1], &b.x, 8) == 0);
	/* what a node has told may be its new parameters */
	OK(cuGraphKernelNodeSetParams(node, &p));
	OK(cuGraphKernelNodeGetParams_v2(node, &second));
	CHECK(second.base.function == b.add && !second.kernel && !second.context);
	CHECK(memcmp(second.base.extra[1], &b.x, 8) == 0);
	second.base.function = NULL;
	second.kernel = b.add;
	OK(cuGraphKernelNodeSetParams_v2(node, &second));
	CHECK(run(graph));
	bench_host_add(b.host_x, b.host_y);
	CHECK(bench_is_right(&b));
	OK(cuGraphDestroy(clone));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

/* Changes of an instance's graph, and of a child, reach what is made of them later. */
static bool changed_later(void)
{
	struct cuda_kernel_node p = {.grid = {3, 1, 1}, .block = {128, 1, 1}};
	CUgraph graph, parent, child;
	CUgraphExec exec;
	CUgraphNode node, inner;
	struct bench b;
	size_t n = 1;

	CHECK(bench_open(&b));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphCreate(&parent, 0));
	CHECK(bench_add_node(&b, graph, &node, NULL, 0, &b.y, &b.x));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphAddChildGraphNode(&inner, parent, NULL, 0, graph));
	p.function = b.add;
	p.params = (void *[]){&b.x, &b.y, &b.n};
	OK(cuGraphKernelNodeSetParams(node, &p));
	OK(cuGraphLaunch(exec, NULL));
	CHECK(run(parent) && run(graph));
	bench_host_add(b.host_y, b.host_x);
	bench_host_add(b.host_y, b.host_x);
	bench_host_add(b.host_x, b.host_y);
	CHECK(bench_is_right(&b));
	OK(cuGraphChildGraphNodeGetGraph(inner, &child));
	OK(cuGraphGetNodes(child, &inner, &n));
	OK(cuGraphKernelNodeSetParams(inner, &p));
	CHECK(run(parent));
	bench_host_add(b.host_x, b.host_y);
	CHECK(bench_is_right(&b));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(parent));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

/* A copy is told as it was said: with its offsets, and the pitch that it does not need. */
static bool copies(void)
{
	struct cuda_copy_3d p = {.from = {.x = 8, .type = 2},
				 .to = {.type = 2},
				 .width = 16,
				 .rows = 1,
				 .layers = 1},
			    q, seen;
	CUgraph graph, clone;
	CUgraphNode node, other;
	CUcontext context;
	struct bench b;
	CUevent event;

	CHECK(bench_open(&b));
	OK(cuCtxGetCurrent(&context));
	OK(cuEventCreate(&event, 0));
	OK(cuGraphCreate(&graph, 0));
	p.from.device = b.x;
	p.to.device = b.y;
	OK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &p, context));
	OK(cuGraphAddEventRecordNode(&other, graph, NULL, 0, event));
	OK(cuGraphMemcpyNodeGetParams(node, &seen));
	CHECK(memcmp(&seen, &p, sizeof(p)) == 0);
	CHECK(run(graph));
	memcpy(b.host_y, b.host_x + 2, 16);
	CHECK(bench_is_right(&b));
	OK(cuGraphClone(&clone, graph));
	/* the other direction, and more of it; then errors */
	q = seen;
	q.from.device = b.y;
	q.to.device = b.x;
	q.width = 400;
	OK(cuGraphMemcpyNodeSetParams(node, &q));
	CHECK(cuGraphMemcpyNodeSetParams(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphMemcpyNodeGetParams(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphMemcpyNodeSetParams(other, &q) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphMemcpyNodeGetParams(other, &q) == CUDA_ERROR_INVALID_VALUE);
	seen = q;
	seen.width = BENCH_N * 4;
	CHECK(cuGraphMemcpyNodeSetParams(node, &seen) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphMemcpyNodeGetParams(node, &seen));
	CHECK(memcmp(&seen, &q, sizeof(q)) == 0);
	CHECK(run(graph));
	memcpy(b.host_x, b.host_y + 2, 400);
	CHECK(bench_is_right(&b) && run(clone));
	memcpy(b.host_y, b.host_x + 2, 16);
	CHECK(bench_is_right(&b));
	OK(cuGraphDestroy(clone));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

/* Nodes that were captured tell what was called. */
static bool captured(void)
{
	CUgraphNode nodes[4];
	struct cuda_copy_3d row, box = {.from = {.y = 1, .type = 2, .pitch = 40},
					.to = {.type = 2, .pitch = 32},
					.width = 24,
					.rows = 3,
					.layers = 1};
	struct cuda_set_node set;
	struct bench b;
	CUgraph graph;
	size_t n = 4;
	uint32_t i;

	CHECK(bench_open(&b));
	box.from.device = b.x;
	box.to.device = b.y;
	OK(cuStreamBeginCapture_v2(b.s, 0));
	OK(cuMemcpyHtoDAsync_v2(b.x, b.host_y, 80, b.s));
	OK(cuMemcpy3DAsync_v2(&box, b.s));
	OK(cuMemsetD16Async(b.y, 3, 10, b.s));
	OK(cuStreamWriteValue64_v2(b.s, b.x, 1, 0));
	OK(cuStreamEndCapture(b.s, &graph));
	OK(cuGraphGetNodes(graph, nodes, &n));
	OK(cuGraphMemcpyNodeGetParams(nodes[0], &row));
	CHECK(row.from.type == 1 && row.from.host == b.host_y && row.to.type == 2);
	CHECK(row.to.device == b.x && row.width == 80 && row.rows == 1 && row.layers == 1);
	memset(&row, 0, sizeof(row));
	OK(cuGraphMemcpyNodeGetParams(nodes[1], &row));
	CHECK(memcmp(&row, &box, sizeof(row)) == 0);
	OK(cuGraphMemsetNodeGetParams(nodes[2], &set));
	CHECK(set.at == b.y && set.value == 3 && set.unit == 2 && set.width == 10);
	CHECK(set.rows == 1);
	CHECK(cuGraphMemsetNodeGetParams(nodes[3], &set) == CUDA_ERROR_NOT_SUPPORTED);
	OK(cuGraphMemcpyNodeGetParams(nodes[0], &row));
	row.width = 120; /* there is no pitch that forbids it */
	OK(cuGraphMemcpyNodeSetParams(nodes[0], &row));
	OK(cuGraphDestroyNode(nodes[3]));
	CHECK(run(graph));
	memcpy(b.host_x, b.host_y, 120);
	for (i = 0; i < 3; i++)
		memcpy(b.host_y + i * 8, b.host_x + (i + 1) * 10, 24);
	for (i = 0; i < 5; i++)
		b.host_y[i] = 3 << 16 | 3;
	CHECK(bench_is_right(&b));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

static bool sets(void)
{
	struct cuda_set_node p = {.pitch = 40, .value = 7, .unit = 4, .width = 5, .rows = 2}, q,
			     seen;
	CUgraphNode node, other;
	CUcontext context;
	CUgraph graph;
	struct bench b;
	uint32_t i;

	CHECK(bench_open(&b));
	OK(cuCtxGetCurrent(&context));
	OK(cuGraphCreate(&graph, 0));
	p.at = b.x;
	OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &p, context));
	OK(cuGraphAddEmptyNode(&other, graph, NULL, 0));
	OK(cuGraphMemsetNodeGetParams(node, &seen));
	CHECK(memcmp(&seen, &p, sizeof(p)) == 0);
	q = p;
	q.at = b.y;
	q.value = 8;
	q.rows = 3;
	OK(cuGraphMemsetNodeSetParams(node, &q));
	seen = q;
	seen.unit = 3;
	CHECK(cuGraphMemsetNodeSetParams(node, &seen) == CUDA_ERROR_INVALID_VALUE);
	seen.unit = 4;
	seen.rows = 1000; /* beyond the memory */
	CHECK(cuGraphMemsetNodeSetParams(node, &seen) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphMemsetNodeSetParams(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphMemsetNodeGetParams(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphMemsetNodeSetParams(other, &q) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphMemsetNodeGetParams(other, &q) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphMemsetNodeGetParams(node, &seen));
	CHECK(memcmp(&seen, &q, sizeof(q)) == 0);
	CHECK(run(graph));
	for (i = 0; i < 15; i++)
		b.host_y[i / 5 * 10 + i % 5] = 8;
	CHECK(bench_is_right(&b));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

static void count(void *data)
{
	++*(int *)data;
}

static void count_ten(void *data)
{
	*(int *)data += 10;
}

static bool functions(void)
{
	int a = 0, b = 0;
	struct cuda_host_node p = {count, &a}, q = {count_ten, &b}, seen, none = {NULL, &b};
	CUgraphNode node, other;
	CUgraph graph;

	CHECK(sample_begin());
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddHostNode(&node, graph, NULL, 0, &p));
	OK(cuGraphAddEmptyNode(&other, graph, NULL, 0));
	OK(cuGraphHostNodeGetParams(node, &seen));
	CHECK(seen.run == count && seen.data == &a);
	CHECK(run(graph) && a == 1);
	OK(cuGraphHostNodeSetParams(node, &q));
	CHECK(cuGraphHostNodeSetParams(node, &none) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphHostNodeSetParams(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphHostNodeGetParams(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphHostNodeSetParams(other, &q) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphHostNodeGetParams(other, &q) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphHostNodeGetParams(node, &seen));
	CHECK(seen.run == count_ten && seen.data == &b);
	CHECK(run(graph) && a == 1 && b == 10);
	OK(cuGraphDestroy(graph));
	return sample_end();
}

/* Whether EVENT has a time: it was recorded. */
static bool is_recorded(CUevent first, CUevent event)
{
	float ms;

	return cuEventSynchronize(event) == CUDA_SUCCESS &&
	       cuEventElapsedTime(&ms, first, event) == CUDA_SUCCESS;
}

static bool events(void)
{
	CUevent first, a, b, seen, gone;
	CUgraphNode node, wait;
	CUgraph graph, clone;

	CHECK(sample_begin());
	OK(cuEventCreate(&first, 0));
	OK(cuEventRecord(first, NULL));
	OK(cuEventCreate(&a, 0));
	OK(cuEventCreate(&b, 0));
	OK(cuEventCreate(&gone, 0));
	OK(cuEventDestroy_v2(gone));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddEventRecordNode(&node, graph, NULL, 0, a));
	OK(cuGraphAddEventWaitNode(&wait, graph, &node, 1, a));
	OK(cuGraphEventRecordNodeGetEvent(node, &seen));
	CHECK(seen == a);
	OK(cuGraphClone(&clone, graph));
	OK(cuGraphEventRecordNodeSetEvent(node, b));
	OK(cuGraphEventWaitNodeSetEvent(wait, b));
	CHECK(cuGraphEventRecordNodeSetEvent(node, gone) == CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuGraphEventWaitNodeSetEvent(wait, gone) == CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuGraphEventRecordNodeSetEvent(wait, a) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphEventWaitNodeSetEvent(node, a) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphEventRecordNodeGetEvent(wait, &seen) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphEventWaitNodeGetEvent(node, &seen) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphEventRecordNodeGetEvent(node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphEventWaitNodeGetEvent(wait, NULL) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphEventRecordNodeGetEvent(node, &seen));
	CHECK(seen == b);
	seen = NULL;
	OK(cuGraphEventWaitNodeGetEvent(wait, &seen));
	CHECK(seen == b);
	CHECK(run(graph) && !is_recorded(first, a) && is_recorded(first, b));
	CHECK(run(clone) && is_recorded(first, a));
	OK(cuGraphDestroy(clone));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

const struct sample_check graph_nodes_checks[] = {
	{"kernels that nodes tell and get", kernels},
	{"nodes that change after instances and clones", changed_later},
	{"copies that nodes tell and get", copies},
	{"nodes of calls that were captured", captured},
	{"sets that nodes tell and get", sets},
	{"functions that nodes tell and get", functions},
	{"events that nodes tell and get", events},
	{NULL, NULL},
};
