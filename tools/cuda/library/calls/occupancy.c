/* SPDX-License-Identifier: MIT */
/* The number of blocks that a multiprocessor executes at a time, by the host's driver. */
#include <string.h>

#include "cuda_calls.h"

/* CUdevice_attribute */
enum { BLOCK_THREADS = 1, WARP = 10, PROCESSORS = 16, PROCESSOR_THREADS = 39, SHARED_OPTIN = 97 };
#define OCCUPANCY_FLAGS 1u /* CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE */
#define SHARED_GRAIN 128u

CUresult occupancy_ask(const struct function *f, uint32_t threads, uint64_t shared, int *blocks)
{
	struct softgpu_occupancy o = {.threads = threads, .shared = (uint32_t)shared};
	CUresult e;

	if (shared > INT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(o.name, f->known.name, sizeof(o.name));
	memcpy(link_parts.structure, &o, sizeof(o));
	e = link_put(SOFTGPU_OCCUPANCY, 0,
		     (uint64_t[7]){f->module->number, link_parts.structure_at, sizeof(o)});
	if (e == CUDA_SUCCESS)
		e = link_drain();
	if (e != CUDA_SUCCESS)
		return e;
	memcpy(&o, link_parts.structure, sizeof(o));
	*blocks = o.error == SOFTGPU_OK ? (int)o.blocks : 0;
	return CUDA_SUCCESS;
}

/* Begins a call about the function H, and finds it. OK: whether the call's other arguments are
 * valid. */
static CUresult begin_function(CUfunction h, struct function **f, bool ok)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	*f = handle_find(HANDLE_FUNCTION, h);
	if (e == CUDA_SUCCESS && !*f)
		e = CUDA_ERROR_INVALID_HANDLE;
	return e == CUDA_SUCCESS && !ok ? CUDA_ERROR_INVALID_VALUE : e;
}

static CUresult most_blocks(int *blocks, CUfunction function, int threads, size_t shared,
			    unsigned flags)
{
	struct function *f;
	CUresult e = begin_function(function, &f,
				    blocks && threads > 0 &&
					    threads <= link_about.attributes[BLOCK_THREADS] &&
					    !(flags & ~OCCUPANCY_FLAGS));

	return e == CUDA_SUCCESS ? occupancy_ask(f, (uint32_t)threads, shared, blocks) : e;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
						     size_t shared)
{
	return CALL_END(most_blocks(blocks, function, threads, shared, 0));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
							      int threads, size_t shared,
							      unsigned flags)
{
	return CALL_END(most_blocks(blocks, function, threads, shared, flags));
}

/* Asks the program how much shared memory blocks of N threads need. Releases the lock meanwhile,
 * because the program's function may make calls of CUDA. */
static CUresult ask_program(size_t (*shared_of)(int), int n, size_t *shared, CUfunction function,
			    struct function **f)
{
	lock_give();
	*shared = shared_of(n);
	lock_take();
	*f = handle_find(HANDLE_FUNCTION, function);
	return *f ? link_lost() : CUDA_ERROR_INVALID_HANDLE;
}

/* Tries each block size that is a multiple of a warp, from the largest on, and chooses the first of
 * those with the most threads at a time. */
static CUresult best_block(int *grid, int *block, CUfunction function, size_t (*shared_of)(int),
			   size_t shared, int limit, unsigned flags)
{
	const int32_t *about = link_about.attributes;
	struct function *f;
	CUresult e = begin_function(function, &f, grid && block && !(flags & ~OCCUPANCY_FLAGS));
	int most, warp = about[WARP] > 0 ? about[WARP] : 32, n, best = 0, blocks;

	if (e != CUDA_SUCCESS)
		return e;
	most = f->known.attributes[0] ? f->known.attributes[0] : about[BLOCK_THREADS];
	most = limit > 0 && limit < most ? limit : most;
	*block = *grid = 0;
	for (n = most; n > 0 && best < about[PROCESSOR_THREADS]; n = (n - 1) / warp * warp) {
		if (shared_of)
			e = ask_program(shared_of, n, &shared, function, &f);
		if (e == CUDA_SUCCESS)
			e = occupancy_ask(f, (uint32_t)n, shared, &blocks);
		if (e != CUDA_SUCCESS)
			return e;
		if (blocks * n > best) {
			best = blocks * n;
			*block = n;
			*grid = blocks * about[PROCESSORS];
		}
	}
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
					  size_t (*shared_of)(int), size_t shared, int limit)
{
	return CALL_END(best_block(grid, block, function, shared_of, shared, limit, 0));
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
						   size_t (*shared_of)(int), size_t shared,
						   int limit, unsigned flags)
{
	return CALL_END(best_block(grid, block, function, shared_of, shared, limit, flags));
}

/* Finds, by bisection, the most dynamic shared memory with which BLOCKS blocks still fit. */
static CUresult shared_left(size_t *bytes, CUfunction function, int blocks, int threads)
{
	struct function *f;
	CUresult e = begin_function(function, &f,
				    bytes && blocks > 0 && threads > 0 &&
					    threads <= link_about.attributes[BLOCK_THREADS]);
	uint64_t fits = 0, over = (uint64_t)link_about.attributes[SHARED_OPTIN] / SHARED_GRAIN + 1;
	int seen = 0;

	while (e == CUDA_SUCCESS && over - fits > 1) {
		const uint64_t middle = (fits + over) / 2;

		e = occupancy_ask(f, (uint32_t)threads, middle * SHARED_GRAIN, &seen);
		if (seen >= blocks)
			fits = middle;
		else
			over = middle;
	}
	if (e == CUDA_SUCCESS)
		*bytes = fits * SHARED_GRAIN;
	return e;
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks,
						 int threads)
{
	return CALL_END(shared_left(bytes, function, blocks, threads));
}

/* Sets *BLOCKS to how many blocks of launch C a multiprocessor executes at a time. */
static CUresult at_a_time(CUfunction function, const struct cuda_launch_config *c, uint64_t *blocks)
{
	struct function *f;
	CUresult e = begin_function(function, &f, c && (c->n_attributes == 0 || c->attributes));
	uint64_t threads;
	int each = 0;

	if (e != CUDA_SUCCESS)
		return e;
	threads = (uint64_t)c->block[0] * c->block[1];
	if (__builtin_mul_overflow(threads, c->block[2], &threads) || threads == 0 ||
	    threads > (uint64_t)link_about.attributes[BLOCK_THREADS])
		return CUDA_ERROR_INVALID_VALUE;
	e = occupancy_ask(f, (uint32_t)threads, c->shared, &each);
	*blocks = (uint64_t)each * (uint64_t)link_about.attributes[PROCESSORS];
	return e;
}

uint64_t occupancy_cluster(const struct cuda_attribute *a)
{
	uint64_t plane = (uint64_t)a->of.cluster[0] * a->of.cluster[1], all;

	return __builtin_mul_overflow(plane, a->of.cluster[2], &all) ? UINT64_MAX : all;
}

static uint64_t cluster_of(const struct cuda_launch_config *c)
{
	uint64_t size = 1;
	unsigned i;

	for (i = 0; i < c->n_attributes; i++)
		if (c->attributes[i].id == LAUNCH_CLUSTER)
			size = occupancy_cluster(&c->attributes[i]);
	return size;
}

/* *N becomes 0 for clusters of more than one block, which are not supported. */
CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction function,
				      const struct cuda_launch_config *c)
{
	uint64_t blocks = 0;
	CUresult e = at_a_time(function, c, &blocks);

	if (e == CUDA_SUCCESS && (!n || cluster_of(c) == 0))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*n = cluster_of(c) == 1 ? (int)blocks : 0;
	return CALL_END(e);
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function,
					    const struct cuda_launch_config *c)
{
	uint64_t blocks = 0;
	CUresult e = at_a_time(function, c, &blocks);

	if (e == CUDA_SUCCESS && !size)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*size = blocks > 0;
	return CALL_END(e);
}
