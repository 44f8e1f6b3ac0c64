/* SPDX-License-Identifier: MIT */
/* Times that a benchmark has measured, and their quantiles. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "vgpu/types.h"

static inline int sample_compare(const void *a, const void *b)
{
	vgpu_nsec x = *(const vgpu_nsec *)a, y = *(const vgpu_nsec *)b;

	return (x > y) - (x < y);
}

static inline int sample_compare_real(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Nanoseconds since some instant. */
static inline double sample_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Sorts N times, N > 0, nanoseconds, and prints their quantiles in microseconds as a member NAME of
 * a JSON object; END follows. */
static inline void sample_print(const char *name, vgpu_nsec *ns, size_t n, const char *end)
{
	qsort(ns, n, sizeof(*ns), sample_compare);
	printf("\"%s\":{\"n\":%zu,\"min_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}%"
	       "s",
	       name, n, (double)ns[0] / 1e3, (double)ns[n / 2] / 1e3,
	       (double)ns[n * 99 / 100] / 1e3, (double)ns[n - 1] / 1e3, end);
}
