/* SPDX-License-Identifier: MIT */
/* What checks of graphs work on. */
#pragma once

#include "check.h"

#define BENCH_N 300u

/* y += x and x += y by turns: the result tells in which order they were executed. */
struct bench {
	CUmodule module;
	CUfunction add;
	CUdeviceptr x, y;
	CUstream s, t;
	uint32_t n, host_x[BENCH_N], host_y[BENCH_N], seen[BENCH_N];
};

/* Begins a check. */
bool bench_open(struct bench *b);
/* TO += FROM: by the GPU, by the CPU. */
CUresult bench_launch(struct bench *b, CUdeviceptr *to, CUdeviceptr *from, CUstream s);
void bench_host_add(uint32_t *to, const uint32_t *from);
/* Whether the GPU has what the CPU has. */
bool bench_is_right(struct bench *b);
/* Adds a node that does as bench_launch(). */
bool bench_add_node(struct bench *b, CUgraph graph, CUgraphNode *out, CUgraphNode *after, size_t n,
		    CUdeviceptr *to, CUdeviceptr *from);
