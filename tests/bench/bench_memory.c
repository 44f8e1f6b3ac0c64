/* SPDX-License-Identifier: MIT */
/*
 * The table of a GPU's memory: the cost of taking and giving back an extent, and how full a GPU of
 * 80 GiB gets with VMs of random sizes that come and go, before the first one is refused: with
 * best fit, with profiles, with first fit (implemented here, to compare) and with sixteen equal
 * partitions.
 */
#include <stdio.h>

#include "sample.h"
#include "vgpu/memory.h"

#define MIB (UINT64_C(1) << 20)
#define GRANULE (16 * MIB)
#define TOTAL (UINT64_C(80) << 30)
#define MOST 4100u
#define RUNS 2000u

static struct vgpu_memory_extent storage[2 * MOST];
static struct vgpu_memory m;
static uint64_t rng = 88172645463325252u;

static uint32_t any(uint32_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 33) % below;
}

/* The cost of one allocation, release and scrub, in a table of N extents, half of them free. */
static double cost(uint32_t n)
{
	struct vgpu_memory_request r = {.owner = 1, .size = GRANULE};
	uint32_t i, rounds = 20000;
	uint64_t offset;
	double begin;

	vgpu_memory_init(&m, storage, 2 * MOST, (uint64_t)n * GRANULE, GRANULE);
	for (i = 0; i < n; i += 2)
		vgpu_memory_reserve(&m, i, (uint64_t)i * GRANULE, GRANULE);
	begin = sample_now();
	for (i = 0; i < rounds; i++)
		if (vgpu_memory_alloc(&m, &r, &offset) == 0) {
			vgpu_memory_release(&m, offset);
			vgpu_memory_scrubbed(&m, offset, GRANULE);
		}
	return (sample_now() - begin) / rounds;
}

static int first_fit(uint32_t owner, uint64_t size, uint64_t *offset)
{
	uint32_t i;

	for (i = 0; i < m.n; i++)
		if (m.extents[i].state == VGPU_EXTENT_FREE && m.extents[i].size >= size) {
			*offset = m.extents[i].offset;
			return vgpu_memory_reserve(&m, owner, *offset, size);
		}
	return -1;
}

enum way { BEST_FIT, PROFILES, FIRST_FIT, EQUAL, WAYS };
static const char *const names[WAYS] = {"best_fit", "profiles", "first_fit", "equal_sixteenths"};

/* Returns the part of the memory that VMs had claimed when the first VM was refused. */
static double fullness(enum way way)
{
	uint64_t at[64], claimed[64], size, offset, sum = 0;
	uint32_t n = 0, i;
	int r;

	vgpu_memory_init(&m, storage, 2 * MOST, TOTAL, GRANULE);
	for (;;) {
		if (n > 0 && (n == 64 || any(5) < 2)) {
			i = any(n);
			size = vgpu_memory_at(&m, at[i])->size;
			vgpu_memory_release(&m, at[i]);
			vgpu_memory_scrubbed(&m, at[i], size);
			sum -= claimed[i];
			n--;
			at[i] = at[n];
			claimed[i] = claimed[n];
			continue;
		}
		/* 1 to 16 GiB, small ones more often. */
		size = (UINT64_C(1) << (any(5) + 30)) * (100 - any(40)) / 100;
		claimed[n] = size;
		size = (size + GRANULE - 1) / GRANULE * GRANULE;
		if (way == FIRST_FIT) {
			r = first_fit(n, size, &offset);
		} else if (way == EQUAL) {
			r = size > TOTAL / 16 ? -1 : first_fit(n, TOTAL / 16, &offset);
		} else {
			struct vgpu_memory_request q = {
				.owner = n,
				.size = size,
				.span = TOTAL,
				.placement =
					way == PROFILES ? VGPU_PLACE_PROFILE : VGPU_PLACE_BEST_FIT,
			};

			r = vgpu_memory_alloc(&m, &q, &offset);
		}
		if (r < 0)
			return (double)sum / (double)TOTAL;
		at[n] = offset;
		sum += claimed[n++];
	}
}

int main(void)
{
	double sum;
	uint32_t i;
	int w;

	printf("{\"alloc_release_scrubbed_ns\":{\"64\":%.0f,\"4096\":%.0f},\"full_at_first_"
	       "refusal\":{",
	       cost(64), cost(4096));
	for (w = 0; w < WAYS; w++) {
		rng = 88172645463325252u;
		sum = 0;
		for (i = 0; i < RUNS; i++)
			sum += fullness((enum way)w);
		printf("%s\"%s\":%.3f", w ? "," : "", names[w], sum / RUNS);
	}
	puts("}}");
	return 0;
}
