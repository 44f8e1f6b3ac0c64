// SPDX-License-Identifier: MIT
// calls.h for a GPU, with functions as functions: clang compiles this when the tests are built.
#include <__clang_cuda_builtin_vars.h>

#define FUNCTION extern "C" __attribute__((device)) __attribute__((noinline))
#include "calls.h"

extern "C" __attribute__((global)) void f(unsigned long long *out, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = work(i);
}
