/* SPDX-License-Identifier: MIT */
/*
 * How much of the GPU's memory is free, as another process than the VFs' workers sees it by the
 * host's CUDA driver. It looks all the time. For each line on standard input it prints "ALL LEAST
 * HEAP OUTPUT", bytes: the GPU's memory; the least that was free since the line before, this
 * instant included; and what the driver keeps in each process for the heap and the output of GPU
 * kernels, if it is asked to keep nothing.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda.h"

static struct cuda_api api;
static size_t all, least = SIZE_MAX, heap, output;

static void fail(const char *what)
{
	fprintf(stderr, "bench-free: %s\n", what);
	exit(1);
}

static void begin(void)
{
	struct vgpu_error err;
	CUcontext context;

	if (cuda_load(CUDA_LIBRARY, &api, &err) < 0)
		fail(err.text);
	if (api.cuInit(0) || api.cuDevicePrimaryCtxRetain(&context, 0) ||
	    api.cuCtxSetCurrent(context))
		fail("no context on the GPU");
	api.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 0);
	api.cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 0);
	if (api.cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE) ||
	    api.cuCtxGetLimit(&output, CU_LIMIT_PRINTF_FIFO_SIZE))
		fail("cuCtxGetLimit");
}

static void look(void)
{
	size_t left;

	if (api.cuMemGetInfo(&left, &all))
		fail("cuMemGetInfo");
	least = left < least ? left : least;
}

int main(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[64];

	begin();
	for (;;) {
		look();
		if (poll(&input, 1, 1) == 0)
			continue;
		if (read(input.fd, line, sizeof(line)) <= 0)
			return 0;
		look();
		printf("%zu %zu %zu %zu\n", all, least, heap, output);
		fflush(stdout);
		least = SIZE_MAX;
	}
}
