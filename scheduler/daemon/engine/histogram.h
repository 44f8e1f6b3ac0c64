/* SPDX-License-Identifier: MIT */
/* A histogram of times, in buckets of at most 1/16 relative width; fixed size, no allocation. */
#pragma once

#include <string.h>

#include "vgpu/types.h"

#define HISTOGRAM_BUCKETS 640u

struct histogram {
	uint64_t n;
	vgpu_nsec max, sum;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Sixteen buckets for each power of two; below 32 ns one for each nanosecond. */
static inline uint32_t histogram_bucket(vgpu_nsec t)
{
	uint32_t octave, b;

	if (t < 32)
		return (uint32_t)t;
	octave = 63 - (uint32_t)__builtin_clzll(t);
	b = (octave - 4) * 16 + (uint32_t)(t >> (octave - 4));
	return b < HISTOGRAM_BUCKETS ? b : HISTOGRAM_BUCKETS - 1;
}

/* The least time that falls into bucket B. */
static inline vgpu_nsec histogram_value(uint32_t b)
{
	return b < 32 ? b : (vgpu_nsec)(16 + b % 16) << (b / 16 - 1);
}

static inline void histogram_add(struct histogram *h, vgpu_nsec t)
{
	h->n++;
	h->sum += t;
	h->buckets[histogram_bucket(t)]++;
	if (t > h->max)
		h->max = t;
}

/* Returns how many times were below 2^POWER nanoseconds, POWER 5 to 43: exact, because octaves end
 * at bucket bounds. */
static inline uint64_t histogram_below(const struct histogram *h, uint32_t power)
{
	uint64_t n = 0;
	uint32_t b;

	for (b = 0; b < histogram_bucket((vgpu_nsec)1 << power); b++)
		n += h->buckets[b];
	return n;
}

/* Returns the time that PER_MILLE of all times do not exceed, rounded up to a bucket;
 * nanoseconds. */
static inline vgpu_nsec histogram_quantile(const struct histogram *h, uint32_t per_mille)
{
	uint64_t want = (h->n * per_mille + 999) / 1000, seen = 0;
	uint32_t b;

	for (b = 0; b < HISTOGRAM_BUCKETS; b++) {
		seen += h->buckets[b];
		if (seen >= want && seen > 0)
			return b + 1 < HISTOGRAM_BUCKETS && histogram_value(b + 1) < h->max
				       ? histogram_value(b + 1)
				       : h->max;
	}
	return h->max;
}
