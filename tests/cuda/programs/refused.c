/* SPDX-License-Identifier: MIT */
/* Checks of work that cannot run: the call that asks for it says so, and nothing of it runs. */
#include "check.h"

#define MOST_THREADS 64u
#define STATIC_SHARED 1024u

/* *x += 1, in blocks of at most 64 threads, with 1024 bytes of shared memory */
static const char narrow_ptx[] =
	".version 6.0\n.target sm_70\n.address_size 64\n"
	".visible .entry narrow(.param .u64 x)\n.maxntid 64, 1, 1\n{\n"
	"\t.reg .pred %p<1>;\n\t.reg .b64 %d<2>;\n\t.reg .b32 %r<3>;\n\t.shared .align 4 .b8 "
	"own[1024];\n"
	"\tmov.u32 %r0, %tid.x;\n\tsetp.ne.u32 %p0, %r0, 0;\n\t@%p0 ret;\n"
	"\tld.param.u64 %d0, [x];\n\tcvta.to.global.u64 %d1, %d0;\n"
	"\tmov.u32 %r0, own;\n\tld.global.u32 %r1, [%d1];\n\tadd.u32 %r1, %r1, 1;\n"
	"\tst.shared.u32 [%r0], %r1;\n\tld.shared.u32 %r2, [%r0];\n"
	"\tst.global.u32 [%d1], %r2;\n\tret;\n}\n";

struct bench {
	CUfunction narrow;
	CUdeviceptr x;
	unsigned shared; /* bytes that a launch may have */
};

static bool open_bench(struct bench *b)
{
	CUmodule module;
	int most;

	CHECK(sample_begin());
	OK(cuModuleLoadData(&module, narrow_ptx));
	OK(cuModuleGetFunction(&b->narrow, module, "narrow"));
	OK(cuMemAlloc_v2(&b->x, 64));
	OK(cuMemsetD8_v2(b->x, 0, 64));
	OK(cuDeviceGetAttribute(&most, 97, 0));
	b->shared = (unsigned)most - STATIC_SHARED;
	return true;
}

/* Launches THREADS threads, with SHARED bytes of shared memory. */
static CUresult launch(struct bench *b, unsigned threads, unsigned shared, CUstream s)
{
	return cuLaunchKernel(b->narrow, 1, 1, 1, threads, 1, 1, shared, s, (void *[]){&b->x},
			      NULL);
}

/* Launches with these sizes of the grid and of its blocks. */
static CUresult launch_as(struct bench *b, const unsigned n[6])
{
	return cuLaunchKernel(b->narrow, n[0], n[1], n[2], n[3], n[4], n[5], 0, NULL,
			      (void *[]){&b->x}, NULL);
}

static bool is_counted(const struct bench *b, uint32_t wanted)
{
	uint32_t seen;

	OK(cuMemcpyDtoH_v2(&seen, b->x, 4));
	CHECK(seen == wanted);
	return true;
}

static bool launches(void)
{
	struct bench b;

	CHECK(open_bench(&b));
	CHECK(launch(&b, MOST_THREADS + 1, 0, NULL) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	CHECK(launch(&b, 1, b.shared + 1, NULL) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuLaunchCooperativeKernel(b.narrow, 1, 1, 1, MOST_THREADS + 1, 1, 1, 0, NULL,
					(void *[]){&b.x}) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	CHECK(is_counted(&b, 0));
	OK(launch(&b, MOST_THREADS, 0, NULL));
	CHECK(is_counted(&b, 1));
	OK(launch(&b, 1, b.shared, NULL));
	CHECK(is_counted(&b, 2));
	return sample_end();
}

/* Each of the six sizes of a launch is at least 1, and at most what the GPU says: then the launch
 * is refused for another reason, its threads, of which a block that is X wide has more than the
 * function may have, but not more than the GPU. */
static bool shapes(void)
{
	const unsigned x[6] = {MOST_THREADS + 1, MOST_THREADS + 1, MOST_THREADS + 1, 1, 1, 2};
	struct bench b;
	unsigned d;
	int most;

	CHECK(open_bench(&b));
	for (d = 0; d < 6; d++) {
		unsigned n[6] = {1, 1, 1, 1, 1, 1};

		OK(cuDeviceGetAttribute(&most, d < 3 ? 5 + (int)d : 2 + (int)d - 3, 0));
		n[d] = 0;
		CHECK(launch_as(&b, n) == CUDA_ERROR_INVALID_VALUE);
		n[d] = (unsigned)most + 1;
		CHECK(launch_as(&b, n) == CUDA_ERROR_INVALID_VALUE);
		n[3] = x[d];
		n[d] = (unsigned)most;
		CHECK(launch_as(&b, n) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	}
	CHECK(is_counted(&b, 0));
	return sample_end();
}

/* Local memory of each thread that a GPU can run, beyond all that any of them has. */
static bool local_memory(void)
{
	static const char text[] =
		".version 6.0\n.target sm_70\n.address_size 64\n"
		".visible .entry large(.param .u64 x)\n{\n"
		"\t.reg .b64 %d<2>;\n\t.reg .b32 %r<2>;\n\t.local .align 4 .b8 own[524288];\n"
		"\tld.param.u64 %d0, [x];\n\tcvta.to.global.u64 %d1, %d0;\n"
		"\tld.global.u32 %r0, [%d1];\n\tst.local.u32 [own], %r0;\n"
		"\tld.local.u32 %r1, [own];\n\tst.global.u32 [%d1], %r1;\n\tret;\n}\n";
	CUmodule module;
	CUdeviceptr x;
	CUfunction f;

	CHECK(sample_begin());
	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&f, module, "large"));
	OK(cuMemAlloc_v2(&x, 4));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&x}, NULL));
	CHECK(cuCtxSynchronize() == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	OK(cuCtxSynchronize()); /* the context lives on */
	return sample_end();
}

/* Captures two launches with wrong calls between them. */
static bool capture(struct bench *b, CUstream s, CUgraph *graph)
{
	const uint32_t data[4] = {7, 7, 7, 7};
	CUdeviceptr none = b->x + 64;

	OK(cuStreamBeginCapture_v2(s, 0));
	OK(launch(b, 1, 0, s));
	CHECK(launch(b, 1025, 0, s) == CUDA_ERROR_INVALID_VALUE);
	CHECK(launch(b, MOST_THREADS + 1, 0, s) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	CHECK(cuMemcpyHtoDAsync_v2(none, data, 16, s) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyDtoDAsync_v2(b->x, none, 16, s) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemsetD32Async(none, 7, 1, s) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemsetD32Async(b->x + 2, 7, 1, s) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemsetD32Async(none, 7, 0, s));
	OK(launch(b, 1, 0, s));
	OK(cuStreamEndCapture(s, graph));
	return true;
}

/* Wrong nodes for GRAPH, and wrong parameters for NODE of EXEC. */
static bool add_wrong_nodes(struct bench *b, CUgraph graph, CUgraphNode node, CUgraphExec exec)
{
	void *params[] = {&b->x};
	struct cuda_kernel_node k = {.function = b->narrow,
				     .grid = {1, 1, 1},
				     .block = {1, 1, 1},
				     .params = params};
	struct cuda_set_node set = {.at = b->x + 64, .unit = 4, .width = 1, .rows = 1};
	struct cuda_copy_3d copy = {.from = {.type = 2, .device = b->x},
				    .to = {.type = 2, .device = b->x + 60},
				    .width = 8,
				    .rows = 1,
				    .layers = 1};
	CUgraphNode made;
	CUcontext c;

	OK(cuCtxGetCurrent(&c));
	k.grid[1] = 0;
	CHECK(cuGraphAddKernelNode(&made, graph, NULL, 0, &k) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphExecKernelNodeSetParams(exec, node, &k) == CUDA_ERROR_INVALID_VALUE);
	k.grid[1] = 1;
	k.block[0] = MOST_THREADS + 1;
	CHECK(cuGraphAddKernelNode(&made, graph, NULL, 0, &k) ==
	      CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	CHECK(cuGraphExecKernelNodeSetParams(exec, node, &k) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	CHECK(cuGraphAddMemsetNode(&made, graph, NULL, 0, &set, c) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphAddMemcpyNode(&made, graph, NULL, 0, &copy, c) == CUDA_ERROR_INVALID_VALUE);
	return true;
}

/* A graph is whole, or it is not made. */
static bool graphs(void)
{
	CUgraphNode nodes[3];
	CUgraphExec exec;
	CUgraph graph;
	struct bench b;
	CUstream s;
	size_t n = 3;

	CHECK(open_bench(&b));
	OK(cuStreamCreate(&s, 1));
	CHECK(capture(&b, s, &graph));
	OK(cuGraphGetNodes(graph, nodes, &n));
	CHECK(n == 3); /* the set of nothing is one of them */
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(add_wrong_nodes(&b, graph, nodes[0], exec));
	OK(cuGraphGetNodes(graph, NULL, &n));
	CHECK(n == 3);
	OK(cuGraphLaunch(exec, s));
	CHECK(is_counted(&b, 2));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

const struct sample_check refused_checks[] = {
	{"launches that cannot run", launches},
	{"sizes of launches that are 0 or too large", shapes},
	{"a function that needs too much local memory", local_memory},
	{"graphs with work that cannot run", graphs},
	{NULL, NULL},
};
