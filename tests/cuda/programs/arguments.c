/* SPDX-License-Identifier: MIT */
/* Arguments of launches: of each size, where each is or all in one buffer, now and in a graph. */
#include <string.h>

#include "check.h"

/* As the parameters of add_sizes() lie. */
struct sizes {
	uint8_t a;
	uint16_t b;
	uint8_t c[3];
	uint32_t d;
	CUdeviceptr x;
};

struct bench {
	CUmodule module;
	CUfunction f;
	CUstream s;
	struct sizes now;
	size_t bytes;
	void *params[5], *extra[5];
	uint64_t sum;
};

static void draw(struct bench *b)
{
	b->now.a = (uint8_t)sample_draw(256);
	b->now.b = (uint16_t)sample_draw(65536);
	b->now.c[0] = (uint8_t)sample_draw(256);
	b->now.c[1] = (uint8_t)sample_draw(256);
	b->now.c[2] = (uint8_t)sample_draw(256);
	b->now.d = UINT32_MAX - sample_draw(1000);
}

static uint64_t sum_of(const struct sizes *s)
{
	return (uint64_t)s->a + s->b + s->c[0] + s->c[1] + s->c[2] + s->d;
}

static bool open_bench(struct bench *b)
{
	*b = (struct bench){.bytes = sizeof(b->now)};
	memcpy(b->params, (void *[]){&b->now.a, &b->now.b, b->now.c, &b->now.d, &b->now.x},
	       sizeof(b->params));
	memcpy(b->extra, (void *[]){(void *)1, &b->now, (void *)2, &b->bytes, NULL},
	       sizeof(b->extra));
	CHECK(sample_begin());
	OK(cuModuleLoadData(&b->module, programs_ptx));
	OK(cuModuleGetFunction(&b->f, b->module, "add_sizes"));
	OK(cuStreamCreate(&b->s, 1));
	OK(cuMemAlloc_v2(&b->now.x, 8));
	OK(cuMemsetD8_v2(b->now.x, 0, 8));
	return true;
}

static CUresult launch(struct bench *b, void **params, void **extra)
{
	return cuLaunchKernel(b->f, 1, 1, 1, 1, 1, 1, 0, b->s, params, extra);
}

static bool is_summed(struct bench *b)
{
	uint64_t seen;

	OK(cuStreamSynchronize(b->s));
	OK(cuMemcpyDtoH_v2(&seen, b->now.x, 8));
	CHECK(seen == b->sum);
	return true;
}

static bool of_each_size(void)
{
	struct bench b;
	int i;

	CHECK(open_bench(&b));
	for (i = 0; i < 20; i++) {
		draw(&b);
		b.sum += sum_of(&b.now);
		OK(i % 2 ? launch(&b, b.params, NULL) : launch(&b, NULL, b.extra));
	}
	CHECK(is_summed(&b));
	return sample_end();
}

/* A graph has the values that its arguments had, and needs neither them nor the buffer, which may
 * be longer than the parameters. */
static bool in_a_graph(void)
{
	struct {
		struct sizes all;
		uint8_t more[64];
	} buffer;
	struct cuda_kernel_node p = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph, copy;
	struct bench b;
	uint64_t sum = 0;
	int i;

	CHECK(open_bench(&b));
	OK(cuStreamBeginCapture_v2(b.s, 0));
	draw(&b);
	sum += sum_of(&b.now);
	OK(launch(&b, b.params, NULL));
	draw(&b);
	sum += sum_of(&b.now);
	buffer.all = b.now;
	memset(buffer.more, 9, sizeof(buffer.more));
	b.extra[1] = &buffer;
	b.bytes = sizeof(buffer);
	OK(launch(&b, NULL, b.extra));
	memset(&buffer, 9, sizeof(buffer));
	OK(cuStreamEndCapture(b.s, &graph));
	p.function = b.f;
	p.params = b.params;
	draw(&b);
	sum += sum_of(&b.now);
	OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &p));
	draw(&b);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (i = 0; i < 3; i++) {
		b.sum += sum;
		OK(cuGraphLaunch(exec, b.s));
	}
	CHECK(is_summed(&b));
	/* without its module it is refused, and can be copied and ended */
	OK(cuModuleUnload(b.module));
	CHECK(cuGraphLaunch(exec, b.s) != CUDA_SUCCESS);
	OK(cuGraphClone(&copy, graph));
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(copy));
	OK(cuGraphExecDestroy(exec));
	return sample_end();
}

#define LAUNCHES 1200u
#define WORDS 16384u
#define EVERY 300u /* launches for a copy: the room for launches is full before the next */

/* Launches of nearly as many bytes as there can be, more than the window has room for, between
 * copies: none overwrites another or a copy before it runs. */
static bool of_many_bytes(void)
{
	static struct {
		uint32_t first, between[998], last;
		CUdeviceptr x;
	} big;
	static uint32_t words[WORDS], seen[LAUNCHES / EVERY * WORDS];
	size_t size = sizeof(big);
	void *extra[] = {(void *)1, &big, (void *)2, &size, NULL};
	CUdeviceptr y;
	CUfunction f;
	struct bench b;
	uint32_t i, k;

	CHECK(open_bench(&b));
	OK(cuModuleGetFunction(&f, b.module, "add_ends"));
	OK(cuMemAlloc_v2(&y, sizeof(seen)));
	big.x = b.now.x;
	for (i = 0; i < LAUNCHES; i++) {
		big.first = sample_draw(1u << 31);
		big.last = sample_draw(1u << 31);
		b.sum += (uint64_t)big.first + big.last;
		OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, b.s, NULL, extra));
		if (i % EVERY)
			continue;
		for (k = 0; k < WORDS; k++)
			words[k] = i + k;
		OK(cuMemcpyHtoDAsync_v2(y + i / EVERY * sizeof(words), words, sizeof(words), b.s));
	}
	CHECK(is_summed(&b));
	OK(cuMemcpyDtoH_v2(seen, y, sizeof(seen)));
	for (i = 0; i < LAUNCHES / EVERY * WORDS; i++)
		CHECK(seen[i] == i / WORDS * EVERY + i % WORDS);
	return sample_end();
}

/* Nothing is launched, and a capture goes on without it. */
static bool missing(void)
{
	struct cuda_kernel_node p = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;
	struct bench b;
	int i;

	CHECK(open_bench(&b));
	p.function = b.f;
	for (i = 0; i < 2; i++) {
		if (i == 1)
			OK(cuStreamBeginCapture_v2(b.s, 0));
		CHECK(launch(&b, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
		CHECK(launch(&b, b.params, b.extra) == CUDA_ERROR_INVALID_VALUE);
		b.bytes = sizeof(b.now) - 1;
		CHECK(launch(&b, NULL, b.extra) == CUDA_ERROR_INVALID_VALUE);
		b.bytes = sizeof(b.now);
		b.params[2] = NULL;
		CHECK(launch(&b, b.params, NULL) == CUDA_ERROR_INVALID_VALUE);
		b.params[2] = b.now.c;
		draw(&b);
		b.sum += sum_of(&b.now);
		OK(launch(&b, b.params, NULL));
	}
	OK(cuStreamEndCapture(b.s, &graph));
	CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &p) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, b.s));
	CHECK(is_summed(&b));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	return sample_end();
}

const struct sample_check arguments_checks[] = {
	{"arguments of each size", of_each_size},
	{"arguments of many bytes", of_many_bytes},
	{"arguments in a graph", in_a_graph},
	{"arguments that are missing", missing},
	{NULL, NULL},
};
