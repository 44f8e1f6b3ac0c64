/* SPDX-License-Identifier: MIT */
/* Edges of graphs that are removed, nodes of clones, and graphs as text. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph_bench.h"

/* A chain of additions that is made in the reverse order: without its edges, it runs in that. */
static bool make_chain(struct bench *b, CUgraph *graph, CUgraphNode node[3])
{
	OK(cuGraphCreate(graph, 0));
	CHECK(bench_add_node(b, *graph, &node[2], NULL, 0, &b->y, &b->x));
	CHECK(bench_add_node(b, *graph, &node[1], NULL, 0, &b->x, &b->y));
	CHECK(bench_add_node(b, *graph, &node[0], NULL, 0, &b->x, &b->x));
	OK(cuGraphAddDependencies(*graph, node, node + 1, 2));
	return true;
}

static bool run(CUgraph graph)
{
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuGraphExecDestroy(exec));
	return true;
}

static size_t count_edges(CUgraph graph)
{
	size_t n = 77;

	return cuGraphGetEdges(graph, NULL, NULL, &n) == CUDA_SUCCESS ? n : 77;
}

static bool removed_edges(void)
{
	static const struct cuda_edge plain[2], other[2] = {{.type = 1}};
	CUgraphNode node[3], far[3];
	CUgraph graph, clone;
	struct bench b;

	CHECK(bench_open(&b));
	CHECK(make_chain(&b, &graph, node) && make_chain(&b, &clone, far));
	CHECK(run(graph));
	bench_host_add(b.host_x, b.host_x);
	bench_host_add(b.host_x, b.host_y);
	bench_host_add(b.host_y, b.host_x);
	CHECK(bench_is_right(&b));
	/* one wrong edge, and none is removed */
	CHECK(cuGraphRemoveDependencies(graph, (CUgraphNode[]){node[0], node[0]},
					(CUgraphNode[]){node[1], node[2]},
					2) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphRemoveDependencies(graph, (CUgraphNode[]){node[0], node[0]},
					(CUgraphNode[]){node[1], node[1]},
					2) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphRemoveDependencies(graph, far, far + 1, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphRemoveDependencies(graph, node + 1, node, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphRemoveDependencies(graph, NULL, node, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphRemoveDependencies(graph, node, NULL, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphRemoveDependencies(NULL, node, node + 1, 1) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphRemoveDependencies_v2(graph, node, node + 1, other, 2) ==
	      CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphRemoveDependencies(graph, NULL, NULL, 0));
	CHECK(count_edges(graph) == 2);
	/* first the middle one, then the rest by their order */
	OK(cuGraphRemoveDependencies_v2(graph, node, node + 1, plain, 1));
	CHECK(count_edges(graph) == 1 && run(graph));
	bench_host_add(b.host_x, b.host_y);
	bench_host_add(b.host_x, b.host_x);
	bench_host_add(b.host_y, b.host_x);
	CHECK(bench_is_right(&b));
	OK(cuGraphRemoveDependencies_v2(graph, node + 1, node + 2, NULL, 1));
	CHECK(count_edges(graph) == 0 && run(graph));
	bench_host_add(b.host_y, b.host_x);
	bench_host_add(b.host_x, b.host_y);
	bench_host_add(b.host_x, b.host_x);
	CHECK(bench_is_right(&b));
	OK(cuGraphRemoveDependencies(clone, far, far + 1, 2));
	CHECK(count_edges(clone) == 0);
	OK(cuGraphDestroy(clone));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

/* A node of a clone is found by the original, and changed alone. */
static bool clones(void)
{
	struct cuda_kernel_node p;
	CUgraph graph, clone, second;
	CUgraphNode node[3], found, late;
	struct bench b;
	int i, type;

	CHECK(bench_open(&b) && make_chain(&b, &graph, node));
	OK(cuGraphClone(&clone, graph));
	OK(cuGraphClone(&second, clone));
	OK(cuGraphAddEmptyNode(&late, graph, NULL, 0));
	for (i = 0; i < 3; i++) {
		OK(cuGraphNodeFindInClone(&found, node[i], clone));
		CHECK(found != node[i]);
		CHECK(cuGraphNodeFindInClone(&found, node[i], graph) == CUDA_ERROR_INVALID_VALUE);
		CHECK(cuGraphNodeFindInClone(&found, node[i], second) == CUDA_ERROR_INVALID_VALUE);
	}
	CHECK(cuGraphNodeFindInClone(&found, late, clone) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphNodeFindInClone(&found, NULL, graph) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphNodeFindInClone(NULL, node[0], clone) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphNodeFindInClone(&found, node[0], NULL) == CUDA_ERROR_INVALID_VALUE);
	/* the last one adds to X instead */
	OK(cuGraphNodeFindInClone(&found, node[2], clone));
	OK(cuGraphNodeGetType(found, &type));
	OK(cuGraphKernelNodeGetParams(found, &p));
	CHECK(type == 0 && memcmp(p.params[0], &b.y, 8) == 0);
	p.params = (void *[]){&b.x, &b.x, &b.n};
	OK(cuGraphKernelNodeSetParams(found, &p));
	CHECK(run(clone));
	bench_host_add(b.host_x, b.host_x);
	bench_host_add(b.host_x, b.host_y);
	bench_host_add(b.host_x, b.host_x);
	CHECK(bench_is_right(&b) && run(graph));
	bench_host_add(b.host_x, b.host_x);
	bench_host_add(b.host_x, b.host_y);
	bench_host_add(b.host_y, b.host_x);
	CHECK(bench_is_right(&b));
	OK(cuGraphDestroyNode(found));
	CHECK(cuGraphNodeFindInClone(&found, node[2], clone) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroy(clone));
	OK(cuGraphDestroy(second));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

/* The file's text, which the caller frees; NULL: there is none. */
static char *read_text(const char *path)
{
	const size_t room = 1 << 16;
	FILE *f = fopen(path, "r");
	char *text = f ? calloc(1, room) : NULL;

	if (text && fread(text, 1, room - 1, f) == 0)
		*text = 0;
	if (f)
		fclose(f);
	return text;
}

/* How often WORD is in the text that FLAGS make of GRAPH; -1: there is no text. */
static int occurs(CUgraph graph, const char *path, unsigned flags, const char *word)
{
	char *text = NULL;
	const char *at;
	int n = 0;

	if (cuGraphDebugDotPrint(graph, path, flags) == CUDA_SUCCESS)
		text = read_text(path);
	if (!text)
		return -1;
	for (at = text; (at = strstr(at, word)); at++)
		n++;
	free(text);
	return n;
}

static bool texts(void)
{
	char path[] = "/tmp/cuda-graph-XXXXXX", handle[32];
	struct cuda_set_node set = {.value = 9, .unit = 4, .width = BENCH_N, .rows = 1};
	CUgraph graph, parent;
	CUgraphNode node[3], child;
	CUcontext context;
	struct bench b;
	int fd;

	CHECK(bench_open(&b) && make_chain(&b, &graph, node));
	OK(cuCtxGetCurrent(&context));
	OK(cuGraphCreate(&parent, 0));
	OK(cuGraphAddChildGraphNode(&child, parent, NULL, 0, graph));
	set.at = b.y;
	OK(cuGraphAddMemsetNode(&node[0], parent, &child, 1, &set, context));
	fd = mkstemp(path);
	CHECK(fd >= 0 && close(fd) == 0);
	CHECK(occurs(parent, path, 0, "digraph dot {") == 1);
	CHECK(occurs(parent, path, 0, "subgraph cluster_") == 2);
	CHECK(occurs(parent, path, 0, "{\n") == 3 && occurs(parent, path, 0, "}\n") == 3);
	CHECK(occurs(parent, path, 0, "\"graph_1_node_2\" -> \"graph_1_node_1\";") == 1);
	CHECK(occurs(parent, path, 0, "\"graph_1_node_1\" -> \"graph_1_node_0\";") == 1);
	CHECK(occurs(parent, path, 0, "\"graph_0_node_0\" -> \"graph_0_node_1\";") == 1);
	CHECK(occurs(parent, path, 0, "KERNEL\\nadd_to") == 3);
	CHECK(occurs(parent, path, 0, "MEMSET") == 1);
	/* what each flag adds */
	snprintf(handle, sizeof(handle), "node %p\"", node[0]);
	CHECK(occurs(parent, path, 0, "block 128x1x1") == 0);
	CHECK(occurs(parent, path, 0x10, "block 128x1x1") == 0);
	CHECK(occurs(parent, path, 0x4, "block 128x1x1") == 3);
	CHECK(occurs(parent, path, 0x4, "\\n0x12c") == 3); /* the argument n */
	CHECK(occurs(parent, path, 0x10, "value 0x9 of 4 bytes") == 1);
	CHECK(occurs(parent, path, 0x4, handle) == 0);
	CHECK(occurs(parent, path, 0x400, handle) == 1);
	CHECK(occurs(parent, path, 0x200, "cooperative 0") == 3);
	CHECK(occurs(parent, path, 1, "block 128x1x1") == 3);
	CHECK(occurs(parent, path, 1, "value 0x9 of 4 bytes") == 1);
	/* an error leaves the file alone */
	CHECK(cuGraphDebugDotPrint(graph, path, 1u << 16) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphDebugDotPrint(graph, NULL, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphDebugDotPrint(child, path, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphDebugDotPrint(graph, "/nonexistent/x", 0) == CUDA_ERROR_OPERATING_SYSTEM);
	CHECK(unlink(path) == 0);
	OK(cuGraphDestroy(parent));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

const struct sample_check graph_edges_checks[] = {
	{"edges that are removed", removed_edges},
	{"nodes of clones", clones},
	{"graphs as text", texts},
	{NULL, NULL},
};
