// SPDX-License-Identifier: MIT
// GPU kernels in CUDA C++, which clang compiles to PTX when the test runs; compiled.c has the CPU's side. clang's own headers say what
// threadIdx and its like are; the words of CUDA come from NVIDIA's headers, or else from here.
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#include <__clang_cuda_builtin_vars.h>

#include "compiled.h"

#define BINS 256

BOTH unsigned place()
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

extern "C" {
__constant__ float factors[4] = {1.0f, 0.5f, -0.25f, 3.0f};
__device__ unsigned steps; // the program sets how many steps a walk has at most

__global__ void saxpy(float *y, const float *x, float a, unsigned n)
{
	unsigned i = place();

	if (i < n)
		y[i] = a * x[i] + factors[i % 4] * y[i];
}

// out[0] += the sum of all: each thread adds up some, each block its threads', and one thread the block's.
__global__ void sum(unsigned long long *out, const unsigned *in, unsigned n)
{
	extern __shared__ unsigned long long part[]; // one for each thread
	unsigned long long own = 0;

	for (unsigned i = place(); i < n; i += gridDim.x * blockDim.x)
		own += in[i];
	part[threadIdx.x] = own;
	for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
	}
	if (threadIdx.x == 0)
		__nvvm_atom_add_gen_ll((long long *)out, (long long)part[0]);
}

__global__ void histogram(unsigned *bins, const unsigned char *data, unsigned n)
{
	__shared__ unsigned own[BINS];

	for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
		own[i] = 0;
	__syncthreads();
	for (unsigned i = place(); i < n; i += gridDim.x * blockDim.x)
		__nvvm_atom_add_gen_i((int *)&own[data[i]], 1);
	__syncthreads();
	for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
		if (own[i])
			__nvvm_atom_add_gen_i((int *)&bins[i], (int)own[i]);
}

// most[0]: the largest, which the threads of a warp and then the warps find; most[1]: how many are odd; most[2]: the largest as a number.
__global__ void most(unsigned *most, const unsigned *in, unsigned n)
{
	unsigned i = place(), own = i < n ? in[i] : 0;
	unsigned odd = (unsigned)__builtin_popcount(__nvvm_vote_ballot_sync(~0u, own & 1));

	for (unsigned from = 16; from > 0; from /= 2) {
		unsigned other = (unsigned)__nvvm_shfl_sync_down_i32(~0, (int)own, (int)from, 31);

		own = other > own ? other : own;
	}
	if (threadIdx.x % 32)
		return;
	__nvvm_atom_max_gen_ui(most, own);
	__nvvm_atom_add_gen_i((int *)&most[1], (int)odd);
	for (unsigned was = most[2], next;; was = next) {
		float a = __builtin_bit_cast(float, was), b = (float)own;

		next = (unsigned)__nvvm_atom_cas_gen_i((int *)&most[2], (int)was,
						       __builtin_bit_cast(int, a < b ? b : a));
		if (next == was)
			break;
	}
}

// c = a * b, of SIZE rows and columns, in tiles of TILE.
__global__ void multiply(float *c, const float *a, const float *b, struct matrix m)
{
	__shared__ float left[TILE][TILE], right[TILE][TILE];
	unsigned x = threadIdx.x, y = threadIdx.y;
	unsigned column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
	float total = 0;

	for (unsigned k = 0; k < m.size; k += TILE) {
		left[y][x] = row < m.size && k + x < m.size ? a[row * m.size + k + x] : 0;
		right[y][x] = column < m.size && k + y < m.size ? b[(k + y) * m.size + column] : 0;
		__syncthreads();
		for (unsigned i = 0; i < TILE && k + i < m.size; i++)
			total += left[y][i] * right[i][x];
		__syncthreads();
	}
	if (row < m.size && column < m.size)
		c[row * m.size + column] = total * m.factor;
}

// Threads of a warp take different ways, and have arrays of their own.
__global__ void walk(struct walked *out, const unsigned *from, unsigned n)
{
	unsigned i = place();

	if (i < n)
		out[i] = walk_from(from[i], steps);
}
}
