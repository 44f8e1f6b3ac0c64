/* SPDX-License-Identifier: MIT */
/* The arena on an NVIDIA GPU: addresses that are reserved once, for all rings, and to which
 * granules of the VF's device memory are mapped. */
#include <errno.h>
#include <stdlib.h>

#include "cuda_private.h"

/* The arena has RANGE_TIMES times the device memory for each ring, but at least RANGE_LEAST bytes,
 * because programs reserve far more than they use. */
#define RANGE_LEAST (UINT64_C(64) << 30)
#define RANGE_TIMES 4u
/* An address at which Linux maps nothing by itself, so that it is also free in a guest's programs.
 * The driver may choose another one. */
#define ARENA_HINT UINT64_C(0x200000000000)

void cuda_take_arena(struct device *d)
{
	struct device_arena *a = &d->arena;
	uint64_t bytes = RANGE_TIMES * d->reserved;

	if (d->behind == 0)
		return;
	bytes = bytes > RANGE_LEAST ? bytes : RANGE_LEAST;
	a->granule = d->granule;
	a->granules = bytes / d->granule;
	a->mapped = calloc(DEVICE_SOURCES * a->granules, sizeof(*a->mapped));
	if (a->mapped &&
	    d->api.cuMemAddressReserve(&a->at, DEVICE_SOURCES * a->granules * a->granule, 0,
				       ARENA_HINT, 0) == CUDA_SUCCESS)
		return;
	free(a->mapped);
	a->mapped = NULL;
}

void cuda_give_arena(struct device *d)
{
	free(d->arena.mapped);
}

/* Returns how many granules from AT on are mapped to consecutive granules of the memory; 0 if AT is
 * not mapped. */
static uint64_t run_at(const struct device_arena *a, uint64_t at)
{
	const uint64_t end = DEVICE_SOURCES * a->granules;
	uint64_t n = 0;

	while (at + n < end && a->mapped[at] != 0 && a->mapped[at + n] == a->mapped[at] + n)
		n++;
	return n;
}

/* Unmaps all mappings before END; the arena's table is not changed. */
static CUresult unmap_before(struct device *d, uint64_t end)
{
	const struct device_arena *a = &d->arena;
	CUresult e = CUDA_SUCCESS;
	uint64_t at, n;

	for (at = 0; at < end && e == CUDA_SUCCESS; at += n ? n : 1) {
		n = run_at(a, at);
		if (n > 0)
			e = d->api.cuMemUnmap(a->at + at * a->granule, n * a->granule);
	}
	return e;
}

CUresult cuda_leave_arena(struct device *d)
{
	return d->arena.mapped ? unmap_before(d, DEVICE_SOURCES * d->arena.granules) : CUDA_SUCCESS;
}

CUresult cuda_enter_arena(struct device *d, bool *lost)
{
	const struct device_arena *a = &d->arena;
	CUresult e = CUDA_SUCCESS;
	uint64_t at, n;

	for (at = 0; a->mapped && at < DEVICE_SOURCES * a->granules; at += n ? n : 1) {
		n = run_at(a, at);
		if (n > 0)
			e = cuda_map_granules(d, a->at + at * a->granule, a->mapped[at] - 1, n,
					      lost);
		if (e == CUDA_SUCCESS)
			continue;
		*lost |= unmap_before(d, at) != CUDA_SUCCESS;
		return e;
	}
	return CUDA_SUCCESS;
}

const struct device_arena *cuda_arena(struct device *d)
{
	return d->arena.mapped ? &d->arena : NULL;
}

int cuda_map(struct device *d, uint64_t at, uint64_t from, uint64_t n)
{
	bool lost;
	CUresult e;
	uint64_t i;

	e = cuda_map_granules(d, d->arena.at + at * d->granule, from, n, &lost);
	if (e != CUDA_SUCCESS)
		return e == CUDA_ERROR_OUT_OF_MEMORY && !lost ? -ENOMEM : -EIO;
	for (i = 0; i < n; i++)
		d->arena.mapped[at + i] = 1 + (uint32_t)(from + i);
	return 0;
}

int cuda_unmap(struct device *d, uint64_t at, uint64_t n)
{
	uint64_t i;

	if (d->api.cuMemUnmap(d->arena.at + at * d->granule, n * d->granule) != CUDA_SUCCESS)
		return -EIO;
	for (i = 0; i < n; i++)
		d->arena.mapped[at + i] = 0;
	return 0;
}
