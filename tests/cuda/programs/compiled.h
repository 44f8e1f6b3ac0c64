/* SPDX-License-Identifier: MIT */
/* What the GPU kernels of compiled.cu and the CPU share: each compiler makes its own code of it. */
#pragma once

/* The driver in software knows no calls, which clang would leave without optimization. */
#ifdef __CUDA__
#define BOTH static __attribute__((device, always_inline)) inline
#else
#define BOTH static
#endif

#define TILE 8u

/* Arguments by value. */
struct matrix {
	unsigned short size;
	float factor;
};

struct walked {
	signed char low;
	unsigned steps, ones;
	long long top;
	double mean;
};

/* The walk of Collatz, with what compilers find hard: each step takes one of several ways, an array
 * is reached by an index that only the walk knows, and integers and numbers of all sizes are
 * converted, divided and shifted. */
BOTH struct walked walk_from(unsigned from, unsigned steps)
{
	struct walked w = {0};
	unsigned long long x = from, last[4] = {0};

	while (x > 1 && w.steps < steps) {
		switch (x % 4) {
		case 0:
			x /= 4;
			break;
		case 1:
			x = 3 * x + 1;
			break;
		case 2:
			x >>= 1;
			break;
		default:
			x = (3 * x + 1) / 2;
		}
		last[x % 4 ^ (w.steps & 1)] += x / (1 + w.steps % 7);
		w.top = (long long)x > w.top ? (long long)x : w.top;
		w.ones += (unsigned)__builtin_popcountll(x);
		w.steps++;
	}
	for (unsigned i = 0; i < 4; i++)
		w.mean += (double)last[i] / (i + 1);
	w.low = (signed char)(last[from % 4] - 77);
	w.mean -= (float)w.low;
	return w;
}
