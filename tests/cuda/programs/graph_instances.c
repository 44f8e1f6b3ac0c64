/* SPDX-License-Identifier: MIT */
/* Instances of graphs that change: their graphs, and other instances, do not. */
#include <string.h>

#include "graph_bench.h"

static bool is_enabled(CUgraphExec exec, CUgraphNode node)
{
	unsigned enabled = 7;

	return cuGraphNodeGetEnabled(exec, node, &enabled) == CUDA_SUCCESS && enabled == 1;
}

/* A set of X to VALUE, a copy of it to Y, and Y += X; and nodes that cannot be disabled. */
struct chain {
	CUgraph graph;
	CUgraphNode set, copy, add, empty;
	struct cuda_set_node said;
	CUcontext context;
};

static bool make_chain(struct bench *b, struct chain *c, unsigned value)
{
	struct cuda_copy_3d copy = {.from = {.type = 2, .device = b->x},
				    .to = {.type = 2, .device = b->y},
				    .width = BENCH_N * 4,
				    .rows = 1,
				    .layers = 1};

	c->said = (struct cuda_set_node){
		.at = b->x, .value = value, .unit = 4, .width = BENCH_N, .rows = 1};
	OK(cuCtxGetCurrent(&c->context));
	OK(cuGraphCreate(&c->graph, 0));
	OK(cuGraphAddMemsetNode(&c->set, c->graph, NULL, 0, &c->said, c->context));
	OK(cuGraphAddMemcpyNode(&c->copy, c->graph, &c->set, 1, &copy, c->context));
	CHECK(bench_add_node(b, c->graph, &c->add, &c->copy, 1, &b->y, &b->x));
	OK(cuGraphAddEmptyNode(&c->empty, c->graph, &c->add, 1));
	return true;
}

static void host_set(uint32_t *to, uint32_t value)
{
	uint32_t i;

	for (i = 0; i < BENCH_N; i++)
		to[i] = value;
}

/* What a launch does without the nodes that are disabled. */
static bool launch_chain(struct bench *b, CUgraphExec exec, uint32_t value, bool copy, bool add)
{
	OK(cuGraphLaunch(exec, b->s));
	if (value)
		host_set(b->host_x, value);
	if (copy)
		memcpy(b->host_y, b->host_x, BENCH_N * 4);
	if (add)
		bench_host_add(b->host_y, b->host_x);
	return bench_is_right(b);
}

/* The first version of the update: a graph of another shape changes nothing. */
static bool update_by_first(struct bench *b)
{
	CUgraphNode wrong, more;
	CUgraphExec exec;
	struct chain c, d;
	int result;

	CHECK(make_chain(b, &c, 7) && make_chain(b, &d, 8));
	OK(cuGraphInstantiateWithFlags(&exec, c.graph, 0));
	wrong = exec;
	result = 77;
	OK(cuGraphExecUpdate(exec, d.graph, &wrong, &result));
	CHECK(!wrong && result == 0);
	CHECK(launch_chain(b, exec, 8, true, true));
	OK(cuGraphExecUpdate(exec, c.graph, NULL, NULL));
	OK(cuGraphAddEmptyNode(&more, d.graph, NULL, 0));
	wrong = exec;
	CHECK(cuGraphExecUpdate(exec, d.graph, &wrong, &result) ==
	      CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	CHECK(!wrong && result == 1);
	CHECK(cuGraphExecUpdate(NULL, d.graph, &wrong, &result) == CUDA_ERROR_INVALID_VALUE);
	CHECK(launch_chain(b, exec, 7, true, true));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(c.graph));
	OK(cuGraphDestroy(d.graph));
	return true;
}

static bool updated(void)
{
	struct bench b;

	CHECK(bench_open(&b) && update_by_first(&b));
	return sample_end();
}

static bool disabled(void)
{
	struct cuda_update_result result;
	CUgraphExec exec, other;
	struct chain c, d;
	struct bench b;
	unsigned seen;

	CHECK(bench_open(&b) && make_chain(&b, &c, 5) && make_chain(&b, &d, 6));
	OK(cuGraphInstantiateWithFlags(&exec, c.graph, 0));
	OK(cuGraphInstantiateWithFlags(&other, c.graph, 0));
	CHECK(is_enabled(exec, c.set) && is_enabled(exec, c.copy) && is_enabled(exec, c.add));
	CHECK(launch_chain(&b, exec, 5, true, true));
	CHECK(cuGraphNodeSetEnabled(exec, c.empty, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphNodeGetEnabled(exec, c.empty, &seen) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphNodeSetEnabled(exec, d.add, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphNodeGetEnabled(exec, d.add, &seen) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphNodeSetEnabled(c.graph, c.add, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphNodeGetEnabled(exec, c.add, NULL) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphNodeSetEnabled(exec, c.copy, 0));
	OK(cuGraphNodeGetEnabled(exec, c.copy, &seen));
	CHECK(seen == 0 && is_enabled(exec, c.set) && is_enabled(other, c.copy));
	CHECK(launch_chain(&b, exec, 5, false, true));
	OK(cuGraphNodeSetEnabled(exec, c.set, 0));
	CHECK(launch_chain(&b, exec, 0, false, true));
	OK(cuGraphNodeSetEnabled(exec, c.add, 0));
	CHECK(launch_chain(&b, exec, 0, false, false));
	CHECK(launch_chain(&b, other, 5, true, true));
	/* what a node gets while it is disabled, it does later */
	c.said.value = 9;
	OK(cuGraphExecMemsetNodeSetParams(exec, c.set, &c.said, c.context));
	CHECK(launch_chain(&b, exec, 0, false, false));
	OK(cuGraphNodeSetEnabled(exec, c.set, 2));
	CHECK(is_enabled(exec, c.set) && launch_chain(&b, exec, 9, false, false));
	OK(cuGraphExecUpdate_v2(exec, d.graph, &result));
	CHECK(launch_chain(&b, exec, 6, false, false));
	OK(cuGraphNodeSetEnabled(exec, c.copy, 1));
	OK(cuGraphNodeSetEnabled(exec, c.add, 1));
	CHECK(launch_chain(&b, exec, 6, true, true));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphExecDestroy(other));
	OK(cuGraphDestroy(c.graph));
	OK(cuGraphDestroy(d.graph));
	return sample_end();
}

static void count(void *data)
{
	++*(int *)data;
}

static bool functions(void)
{
	int a = 0, b = 0;
	struct cuda_host_node p = {count, &a}, q = {count, &b}, none = {NULL, &b}, seen;
	CUgraphNode node, other;
	CUgraphExec exec;
	CUgraph graph;

	CHECK(sample_begin());
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddHostNode(&node, graph, NULL, 0, &p));
	OK(cuGraphAddEmptyNode(&other, graph, NULL, 0));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphExecHostNodeSetParams(exec, node, &q));
	CHECK(cuGraphExecHostNodeSetParams(exec, node, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphExecHostNodeSetParams(exec, node, &none) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphExecHostNodeSetParams(exec, other, &p) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphExecHostNodeSetParams(NULL, node, &p) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphLaunch(exec, NULL));
	OK(cuGraphHostNodeGetParams(node, &seen));
	CHECK(a == 0 && b == 1 && seen.run == count && seen.data == &a);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

static bool events(void)
{
	CUevent first, a, b, seen;
	CUgraphNode node, wait;
	CUgraphExec exec;
	CUgraph graph;
	float ms;

	CHECK(sample_begin());
	OK(cuEventCreate(&first, 0));
	OK(cuEventRecord(first, NULL));
	OK(cuEventCreate(&a, 0));
	OK(cuEventCreate(&b, 0));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddEventRecordNode(&node, graph, NULL, 0, a));
	OK(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, a));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphExecEventRecordNodeSetEvent(exec, node, b));
	OK(cuGraphExecEventWaitNodeSetEvent(exec, wait, b));
	CHECK(cuGraphExecEventRecordNodeSetEvent(exec, wait, a) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphExecEventWaitNodeSetEvent(exec, node, a) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphExecEventRecordNodeSetEvent(exec, node, graph) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphExecEventWaitNodeSetEvent(exec, wait, NULL) == CUDA_ERROR_INVALID_VALUE);
	/* a launch that recorded A, or waited for it, would fail */
	OK(cuEventDestroy_v2(a));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuEventSynchronize(b));
	OK(cuEventElapsedTime(&ms, first, b));
	OK(cuGraphEventRecordNodeGetEvent(node, &seen));
	CHECK(seen == a);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

/* Two additions, A += B and then C += D, or without an edge between them; and an empty node behind
 * the one that LAST names. */
static bool make_two(struct bench *b, CUgraph *graph, CUdeviceptr *const at[4], bool edge, int last)
{
	CUgraphNode node[2], empty;

	OK(cuGraphCreate(graph, 0));
	CHECK(bench_add_node(b, *graph, &node[0], NULL, 0, at[0], at[1]));
	CHECK(bench_add_node(b, *graph, &node[1], node, edge, at[2], at[3]));
	OK(cuGraphAddEmptyNode(&empty, *graph, &node[last], 1));
	return true;
}

/* Graphs that are not like the child's. */
static bool wrong_children(struct bench *b, CUgraphExec exec, CUgraphNode node, CUgraphNode other)
{
	enum { LOOSE, REVERSED, MORE, TYPED, LAST, GRAPHS };
	CUdeviceptr *const at[] = {&b->x, &b->x, &b->x, &b->x};
	CUgraph graphs[GRAPHS];
	CUgraphNode nodes[3];
	size_t n = 3;
	int i;

	CHECK(make_two(b, &graphs[LOOSE], at, false, 0));
	CHECK(make_two(b, &graphs[REVERSED], at, false, 0));
	OK(cuGraphGetNodes(graphs[REVERSED], nodes, &n));
	OK(cuGraphAddDependencies(graphs[REVERSED], &nodes[1], &nodes[0], 1));
	CHECK(make_two(b, &graphs[MORE], at, true, 0));
	OK(cuGraphAddEmptyNode(&nodes[0], graphs[MORE], NULL, 0));
	OK(cuGraphCreate(&graphs[TYPED], 0));
	CHECK(bench_add_node(b, graphs[TYPED], &nodes[0], NULL, 0, &b->x, &b->x));
	OK(cuGraphAddEmptyNode(&nodes[1], graphs[TYPED], nodes, 1));
	OK(cuGraphAddEmptyNode(&nodes[2], graphs[TYPED], nodes, 1));
	CHECK(make_two(b, &graphs[LAST], at, true, 1));
	CHECK(cuGraphExecChildGraphNodeSetParams(exec, node, NULL) == CUDA_ERROR_INVALID_VALUE);
	for (i = 0; i < GRAPHS; i++) {
		CHECK(cuGraphExecChildGraphNodeSetParams(exec, node, graphs[i]) ==
		      CUDA_ERROR_INVALID_VALUE);
		CHECK(cuGraphExecChildGraphNodeSetParams(exec, other, graphs[i]) ==
		      CUDA_ERROR_INVALID_VALUE);
		OK(cuGraphDestroy(graphs[i]));
	}
	return true;
}

/* A child gets other arguments; what comes before and after stays. */
static bool children(void)
{
	struct bench b;
	CUdeviceptr *const first[] = {&b.x, &b.y, &b.x, &b.y}, *const next[] = {&b.y, &b.x, &b.y,
										&b.x};
	CUgraph two, changed, parent;
	CUgraphNode before, node, after;
	CUgraphExec exec;
	int i;

	CHECK(bench_open(&b));
	CHECK(make_two(&b, &two, first, true, 0));
	CHECK(make_two(&b, &changed, next, true, 0));
	OK(cuGraphCreate(&parent, 0));
	CHECK(bench_add_node(&b, parent, &before, NULL, 0, &b.x, &b.y));
	OK(cuGraphAddChildGraphNode(&node, parent, &before, 1, two));
	CHECK(bench_add_node(&b, parent, &after, &node, 1, &b.y, &b.x));
	OK(cuGraphInstantiateWithFlags(&exec, parent, 0));
	CHECK(wrong_children(&b, exec, node, before));
	for (i = 0; i < 2; i++) {
		OK(cuGraphLaunch(exec, NULL));
		bench_host_add(b.host_x, b.host_y);
		bench_host_add(i ? b.host_y : b.host_x, i ? b.host_x : b.host_y);
		bench_host_add(i ? b.host_y : b.host_x, i ? b.host_x : b.host_y);
		bench_host_add(b.host_y, b.host_x);
		CHECK(bench_is_right(&b));
		OK(cuGraphExecChildGraphNodeSetParams(exec, node, changed));
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(parent));
	OK(cuGraphDestroy(two));
	OK(cuGraphDestroy(changed));
	return sample_end();
}

/* The child of a child changes, in its parameters and then in its edges. */
static bool deeper(void)
{
	struct bench b;
	CUdeviceptr *const at[] = {&b.x, &b.y, &b.x, &b.y};
	CUgraph two, middle, parent, inner, other;
	CUgraphNode node, in_middle, nodes[3], empty;
	struct cuda_kernel_node p;
	CUgraphExec exec;
	size_t n = 3;

	CHECK(bench_open(&b) && make_two(&b, &two, at, true, 0));
	OK(cuGraphCreate(&middle, 0));
	OK(cuGraphAddChildGraphNode(&in_middle, middle, NULL, 0, two));
	OK(cuGraphCreate(&parent, 0));
	OK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, middle));
	OK(cuGraphInstantiateWithFlags(&exec, parent, 0));
	OK(cuGraphCreate(&other, 0)); /* without a child */
	OK(cuGraphAddEmptyNode(&empty, other, NULL, 0));
	CHECK(cuGraphExecChildGraphNodeSetParams(exec, node, other) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroy(other));
	OK(cuGraphChildGraphNodeGetGraph(in_middle, &inner));
	OK(cuGraphGetNodes(inner, nodes, &n));
	OK(cuGraphKernelNodeGetParams(nodes[0], &p));
	p.params = (void *[]){&b.y, &b.x, &b.n};
	OK(cuGraphKernelNodeSetParams(nodes[0], &p));
	OK(cuGraphExecChildGraphNodeSetParams(exec, node, middle));
	OK(cuGraphLaunch(exec, NULL));
	bench_host_add(b.host_y, b.host_x);
	bench_host_add(b.host_x, b.host_y);
	CHECK(bench_is_right(&b));
	p.params = (void *[]){&b.x, &b.x, &b.n};
	OK(cuGraphKernelNodeSetParams(nodes[0], &p));
	OK(cuGraphRemoveDependencies(inner, nodes, nodes + 1, 1));
	CHECK(cuGraphExecChildGraphNodeSetParams(exec, node, middle) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphLaunch(exec, NULL));
	bench_host_add(b.host_y, b.host_x);
	bench_host_add(b.host_x, b.host_y);
	CHECK(bench_is_right(&b));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(parent));
	OK(cuGraphDestroy(middle));
	OK(cuGraphDestroy(two));
	return sample_end();
}

/* An upload, 2, is no property of the instance. */
static bool flags(void)
{
	static const struct {
		uint64_t given, told;
	} rows[] = {{0, 0}, {1, 1}, {8, 8}, {2, 0}, {11, 9}};
	struct cuda_instantiate p = {.flags = 10};
	CUgraphExec exec;
	CUgraph graph;
	uint64_t seen;
	size_t i;

	CHECK(sample_begin());
	OK(cuGraphCreate(&graph, 0));
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		OK(cuGraphInstantiateWithFlags(&exec, graph, rows[i].given));
		seen = 77;
		OK(cuGraphExecGetFlags(exec, &seen));
		CHECK(seen == rows[i].told);
		CHECK(cuGraphExecGetFlags(exec, NULL) == CUDA_ERROR_INVALID_VALUE);
		OK(cuGraphExecDestroy(exec));
		CHECK(cuGraphExecGetFlags(exec, &seen) == CUDA_ERROR_INVALID_VALUE);
	}
	OK(cuGraphInstantiateWithParams(&exec, graph, &p));
	OK(cuGraphExecGetFlags(exec, &seen));
	CHECK(seen == 8);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

const struct sample_check graph_instances_checks[] = {
	{"nodes of instances that are disabled", disabled},
	{"instances that are updated by the first version", updated},
	{"functions of instances that change", functions},
	{"events of instances that change", events},
	{"children of instances that change", children},
	{"children of children that change", deeper},
	{"flags of instances", flags},
	{NULL, NULL},
};
