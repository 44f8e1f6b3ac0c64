/* SPDX-License-Identifier: MIT */
/*
 * A VF's device memory and its arena, on a driver of which any call may fail. After each call of
 * the worker that does not say that the device has failed, the driver has exactly the memory and
 * the mappings that the worker has counted, what comes is clear, and what goes was cleared.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_private.h"
#include "draw.h"
#include "suite.h"

#define GRAIN (UINT64_C(2) << 20)
#define COUNT 6u /* of the VF's granules; the last one is not all the VF's */
#define BEHIND (COUNT * GRAIN - 4096)
#define POOL (COUNT + 2u)
#define MEMORY_AT UINT64_C(0x100000000000)
#define ARENA_AT UINT64_C(0x200000000000)
#define OTHERS 0xa5 /* what somebody else has left in a granule */
#define OWN 0x77    /* what the VF has computed */

enum call { CREATE = 0, RELEASE, MAP, UNMAP, ACCESS, SET, WAIT, CALLS };

/* The driver. A handle is the number of a granule of the GPU, from 1 on. */
static struct {
	struct {
		bool taken;
		uint32_t mappings;
		uint8_t value; /* of all its bytes */
	} granules[POOL];
	struct {
		CUdeviceptr at;
		uint32_t granule;
		bool reached;
	} mappings[4 * POOL];
	uint32_t n_mappings;
	uint32_t fails[CALLS]; /* the next call that fails: 1; 0: none */
	bool goes_on;	       /* and all that follow it */
	CUresult failure;
	uint32_t calls[CALLS];
	bool dirty; /* memory was given back in which the VF had computed */
} gpu;

static bool fails(enum call call)
{
	gpu.calls[call]++;
	if (gpu.fails[call] == 0 || --gpu.fails[call] > 0)
		return false;
	gpu.fails[call] = gpu.goes_on;
	return true;
}

static CUresult set_current(CUcontext)
{
	return CUDA_SUCCESS;
}

static CUresult granularity(size_t *grain, const struct cu_allocation *, int)
{
	*grain = GRAIN;
	return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *out, size_t size, size_t, CUdeviceptr at, uint64_t)
{
	*out = at ? ARENA_AT : MEMORY_AT;
	return size % GRAIN ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult create(CUhandle *out, size_t size, const struct cu_allocation *, uint64_t)
{
	uint32_t i;

	CU_ASSERT_EQUAL(size, GRAIN);
	if (fails(CREATE))
		return gpu.failure;
	for (i = 0; i < POOL && (gpu.granules[i].taken || gpu.granules[i].mappings); i++)
		;
	if (i == POOL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gpu.granules[i].taken = true;
	gpu.granules[i].value = OTHERS;
	*out = i + 1;
	return CUDA_SUCCESS;
}

static CUresult release(CUhandle handle)
{
	if (fails(RELEASE))
		return gpu.failure;
	if (handle == 0 || handle > POOL || !gpu.granules[handle - 1].taken)
		return CUDA_ERROR_INVALID_VALUE;
	gpu.granules[handle - 1].taken = false;
	gpu.dirty |= gpu.granules[handle - 1].value == OWN;
	return CUDA_SUCCESS;
}

/* The number of the mapping at AT; N_MAPPINGS: there is none. */
static uint32_t find(CUdeviceptr at)
{
	uint32_t i;

	for (i = 0; i < gpu.n_mappings && gpu.mappings[i].at != at; i++)
		;
	return i;
}

static CUresult map(CUdeviceptr at, size_t size, size_t offset, CUhandle handle, uint64_t)
{
	CU_ASSERT(size == GRAIN && offset == 0 && at % GRAIN == 0);
	if (fails(MAP))
		return gpu.failure;
	if (handle == 0 || handle > POOL || !gpu.granules[handle - 1].taken ||
	    find(at) < gpu.n_mappings || gpu.n_mappings == 4 * POOL)
		return CUDA_ERROR_INVALID_VALUE;
	gpu.mappings[gpu.n_mappings].at = at;
	gpu.mappings[gpu.n_mappings].granule = (uint32_t)handle - 1;
	gpu.mappings[gpu.n_mappings++].reached = false;
	gpu.granules[handle - 1].mappings++;
	return CUDA_SUCCESS;
}

static bool all_mapped(CUdeviceptr at, size_t size)
{
	size_t i;

	for (i = 0; i < size; i += GRAIN)
		if (find(at + i) == gpu.n_mappings)
			return false;
	return size > 0 && size % GRAIN == 0;
}

static CUresult unmap(CUdeviceptr at, size_t size)
{
	uint32_t i;
	size_t n;

	if (fails(UNMAP))
		return gpu.failure;
	if (!all_mapped(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	for (n = 0; n < size; n += GRAIN) {
		i = find(at + n);
		gpu.granules[gpu.mappings[i].granule].mappings--;
		gpu.mappings[i] = gpu.mappings[--gpu.n_mappings];
	}
	return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr at, size_t size, const struct cu_access *access, size_t n)
{
	size_t i;

	CU_ASSERT(n == 1 && access->flags == 3);
	if (fails(ACCESS))
		return gpu.failure;
	if (!all_mapped(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < size; i += GRAIN)
		gpu.mappings[find(at + i)].reached = true;
	return CUDA_SUCCESS;
}

/* A granule of which a part only is set stays what it was. */
static CUresult set(CUdeviceptr dst, unsigned char value, size_t n, CUstream)
{
	CUdeviceptr at = dst;
	uint32_t i;

	if (fails(SET))
		return gpu.failure;
	for (; at + GRAIN <= dst + n; at += GRAIN) {
		i = find(at);
		if (i == gpu.n_mappings || !gpu.mappings[i].reached)
			return CUDA_ERROR_UNKNOWN;
		gpu.granules[gpu.mappings[i].granule].value = value;
	}
	return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream)
{
	return fails(WAIT) ? gpu.failure : CUDA_SUCCESS;
}

static CUresult error_name(CUresult, const char **name)
{
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

static struct device *begin(void)
{
	struct device *d = calloc(1, sizeof(*d));
	struct vgpu_error err;

	memset(&gpu, 0, sizeof(gpu));
	d->api = (struct cuda_api){
		.cuCtxSetCurrent = set_current,
		.cuMemGetAllocationGranularity = granularity,
		.cuMemAddressReserve = reserve,
		.cuMemCreate = create,
		.cuMemRelease = release,
		.cuMemMap = map,
		.cuMemUnmap = unmap,
		.cuMemSetAccess = set_access,
		.cuMemsetD8Async = set,
		.cuStreamSynchronize = synchronize,
		.cuGetErrorName = error_name,
	};
	d->behind = BEHIND;
	CU_ASSERT_EQUAL_FATAL(cuda_take_memory(d, &err), 0);
	cuda_take_arena(d);
	CU_ASSERT_PTR_NOT_NULL_FATAL(cuda_arena(d));
	return d;
}

static void end(struct device *d)
{
	cuda_give_arena(d);
	free(d->granules);
	free(d);
}

/* Whether AT shows granule N of the VF's memory. */
static bool shows(const struct device *d, CUdeviceptr at, uint64_t n)
{
	uint32_t i = find(at);

	return i < gpu.n_mappings && gpu.mappings[i].reached &&
	       gpu.mappings[i].granule + 1 == d->granules[n];
}

/* Whether the driver has what D has counted, and nothing else. */
static bool is_right(const struct device *d)
{
	const uint64_t all = DEVICE_SOURCES * d->arena.granules;
	uint32_t taken = 0, mapped = 0;
	bool right = true;
	uint64_t i;

	for (i = 0; i < POOL; i++) {
		taken += gpu.granules[i].taken;
		right &= gpu.granules[i].taken || gpu.granules[i].mappings == 0;
	}
	if (!d->here)
		return right && taken == 0 && gpu.n_mappings == 0;
	for (i = 0; i < COUNT; i++)
		right &= shows(d, MEMORY_AT + i * GRAIN, i);
	for (i = 0; i < all; i++) {
		if (d->arena.mapped[i] == 0)
			continue;
		mapped++;
		right &= shows(d, ARENA_AT + i * GRAIN, d->arena.mapped[i] - 1);
	}
	return right && taken == COUNT && gpu.n_mappings == COUNT + mapped;
}

static bool is_clear(void)
{
	uint32_t i;

	for (i = 0; i < POOL; i++)
		if (gpu.granules[i].taken && gpu.granules[i].value != 0)
			return false;
	return true;
}

/* What the VF computes. */
static void compute(void)
{
	uint32_t i;

	for (i = 0; i < POOL; i++)
		if (gpu.granules[i].taken)
			gpu.granules[i].value = OWN;
}

/* Mappings of several rings: in a row, backwards, one granule twice, and at both ends. */
static void fill_arena(struct device *d)
{
	const uint64_t all = DEVICE_SOURCES * d->arena.granules;

	CU_ASSERT_EQUAL(cuda_map(d, 0, 0, 4), 0);
	CU_ASSERT_EQUAL(cuda_map(d, 5, 3, 1), 0);
	CU_ASSERT_EQUAL(cuda_map(d, 6, 2, 1), 0);
	CU_ASSERT_EQUAL(cuda_map(d, d->arena.granules - 1, 1, 1), 0);
	CU_ASSERT_EQUAL(cuda_map(d, d->arena.granules, 2, 2), 0);
	CU_ASSERT_EQUAL(cuda_map(d, all - 2, 0, 2), 0);
	CU_ASSERT_EQUAL(cuda_unmap(d, 1, 2), 0);
	CU_ASSERT(is_right(d));
}

static int map_three(struct device *d)
{
	return cuda_map(d, 20, 3, 3);
}

static int unmap_one(struct device *d)
{
	return cuda_unmap(d, 0, 1);
}

static int swap_out(struct device *d)
{
	compute();
	return cuda_leave(d);
}

/* OPERATION on a VF that has memory; or AWAY, when that was given back. Each call that it makes
 * fails with FAILURE in a run of it, once or, if GOES_ON is set, with all of its kind that follow.
 * Afterwards it is as if it had not begun, or done, unless its result is -EIO: then the worker
 * ends. Returns the runs of which that was the result. */
static uint32_t fail_each(int (*operation)(struct device *d), bool away, CUresult failure,
			  bool goes_on)
{
	struct device *d;
	uint32_t call, k, ended = 0;
	bool more = true;
	int r;

	for (call = 0; call < CALLS; call++) {
		for (k = 1, more = true; more; k++) {
			d = begin();
			fill_arena(d);
			if (away)
				CU_ASSERT_EQUAL(swap_out(d), 0);
			memset(gpu.calls, 0, sizeof(gpu.calls));
			gpu.failure = failure;
			gpu.goes_on = goes_on;
			gpu.fails[call] = k;
			r = operation(d);
			more = gpu.calls[call] >= k;
			gpu.fails[call] = 0;
			ended += r == -EIO;
			if (r != -EIO) {
				CU_ASSERT(is_right(d));
				CU_ASSERT(r == 0 || r == -ENOMEM);
				CU_ASSERT(r == 0 || failure == CUDA_ERROR_OUT_OF_MEMORY);
				CU_ASSERT(!gpu.dirty);
				CU_ASSERT(!away || is_clear());
				/* when the driver has what it lacked, it goes on */
				CU_ASSERT(r == 0 || operation(d) == 0);
				CU_ASSERT(is_right(d));
			}
			end(d);
		}
	}
	return ended;
}

TEST(comes, "memory comes as a whole or not at all, whatever call fails")
{
	CU_ASSERT_EQUAL(fail_each(cuda_enter, true, CUDA_ERROR_OUT_OF_MEMORY, false), 0);
	CU_ASSERT_EQUAL(fail_each(cuda_enter, true, CUDA_ERROR_OUT_OF_MEMORY, true), 0);
	CU_ASSERT(fail_each(cuda_enter, true, CUDA_ERROR_UNKNOWN, true) > 0);
}

TEST(goes, "memory goes as a whole, or the worker ends, whatever call fails")
{
	CU_ASSERT(fail_each(swap_out, false, CUDA_ERROR_UNKNOWN, false) > 0);
	CU_ASSERT(fail_each(swap_out, false, CUDA_ERROR_UNKNOWN, true) > 0);
}

TEST(maps, "a mapping is made as a whole or not at all, whatever call fails")
{
	CU_ASSERT_EQUAL(fail_each(map_three, false, CUDA_ERROR_OUT_OF_MEMORY, false), 0);
	CU_ASSERT(fail_each(map_three, false, CUDA_ERROR_UNKNOWN, true) > 0);
	CU_ASSERT(fail_each(unmap_one, false, CUDA_ERROR_UNKNOWN, false) > 0);
}

/* Maps or unmaps what can be, or swaps. */
static int do_anything(struct device *d)
{
	uint64_t at = draw(40), n = 1 + draw(3), from = draw(COUNT - n + 1), i;
	bool mapped = d->arena.mapped[at] != 0;

	if (!d->here)
		return cuda_enter(d);
	if (draw(8) == 0)
		return swap_out(d);
	for (i = at; i < at + n; i++)
		if ((d->arena.mapped[i] != 0) != mapped)
			return 0;
	return mapped ? cuda_unmap(d, at, n) : cuda_map(d, at, from, n);
}

/* What a worker is asked for in any order, while its driver now and then lacks memory for a call.
 */
TEST(anything, "the counts are right after any sequence")
{
	struct device *d = begin();
	uint32_t i, done = 0;

	for (i = 0; i < 1000; i++) {
		gpu.failure = CUDA_ERROR_OUT_OF_MEMORY;
		if (draw(3) == 0)
			gpu.fails[draw(CALLS)] = 1 + (uint32_t)draw(4);
		if (do_anything(d) == -EIO) {
			end(d);
			d = begin();
			continue;
		}
		done++;
		CU_ASSERT_FATAL(is_right(d));
		CU_ASSERT(!gpu.dirty);
	}
	CU_ASSERT(done > 300 && done < 1000);
	end(d);
}

/* Whoever had the memory before: nothing of it is seen, and nothing of the VF afterwards, also in
 * the part of the last granule that is not the VF's, which its GPU kernels reach. */
TEST(clear, "memory is clear when it comes and when it goes")
{
	struct device *d = begin();

	CU_ASSERT(is_right(d) && is_clear());
	fill_arena(d);
	CU_ASSERT_EQUAL(swap_out(d), 0);
	CU_ASSERT(is_right(d) && !gpu.dirty);
	CU_ASSERT_EQUAL(cuda_enter(d), 0);
	CU_ASSERT(is_right(d) && is_clear());
	CU_ASSERT_EQUAL(swap_out(d), 0);
	CU_ASSERT(!gpu.dirty);
	end(d);
}

SUITE_MAIN("granules")
