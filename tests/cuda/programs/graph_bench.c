/* SPDX-License-Identifier: MIT */
#include "graph_bench.h"

#include <string.h>

bool bench_open(struct bench *b)
{
	uint32_t i;

	CHECK(sample_begin());
	OK(cuModuleLoadData(&b->module, programs_ptx));
	OK(cuModuleGetFunction(&b->add, b->module, "add_to"));
	OK(cuMemAlloc_v2(&b->x, BENCH_N * 4));
	OK(cuMemAlloc_v2(&b->y, BENCH_N * 4));
	OK(cuStreamCreate(&b->s, 1));
	OK(cuStreamCreate(&b->t, 1));
	b->n = BENCH_N;
	for (i = 0; i < BENCH_N; i++) {
		b->host_x[i] = sample_draw(1000);
		b->host_y[i] = sample_draw(1000);
	}
	OK(cuMemcpyHtoD_v2(b->x, b->host_x, BENCH_N * 4));
	OK(cuMemcpyHtoD_v2(b->y, b->host_y, BENCH_N * 4));
	return true;
}

CUresult bench_launch(struct bench *b, CUdeviceptr *to, CUdeviceptr *from, CUstream s)
{
	return cuLaunchKernel(b->add, 3, 1, 1, 128, 1, 1, 0, s, (void *[]){to, from, &b->n}, NULL);
}

void bench_host_add(uint32_t *to, const uint32_t *from)
{
	uint32_t i;

	for (i = 0; i < BENCH_N; i++)
		to[i] += from[i];
}

bool bench_is_right(struct bench *b)
{
	OK(cuMemcpyDtoH_v2(b->seen, b->x, BENCH_N * 4));
	CHECK(memcmp(b->seen, b->host_x, BENCH_N * 4) == 0);
	OK(cuMemcpyDtoH_v2(b->seen, b->y, BENCH_N * 4));
	CHECK(memcmp(b->seen, b->host_y, BENCH_N * 4) == 0);
	return true;
}

bool bench_add_node(struct bench *b, CUgraph graph, CUgraphNode *out, CUgraphNode *after, size_t n,
		    CUdeviceptr *to, CUdeviceptr *from)
{
	void *params[] = {to, from, &b->n};
	const struct cuda_kernel_node p = {.function = b->add,
					   .grid = {3, 1, 1},
					   .block = {128, 1, 1},
					   .params = params};

	OK(cuGraphAddKernelNode(out, graph, after, n, &p));
	return true;
}
