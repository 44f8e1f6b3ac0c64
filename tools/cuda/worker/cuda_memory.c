/* SPDX-License-Identifier: MIT */
/* The VF's device memory, which is all memory behind its window. Its addresses are reserved once
 * and never change; memory is mapped there while the VF is not swapped out. It is allocated in
 * granules, because the driver maps no part of an allocation a second time. Memory is cleared when
 * it is allocated, and again before it is freed, so neither an earlier nor a later owner's data is
 * ever visible. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cuda_private.h"

/* The driver frees a worker's memory some time after the worker has ended. So an allocation is
 * tried this many times at a worker's start, and when a VF is swapped in; a failed swap-in is
 * repeated by softgpu. */
#define START_TRIES 100
#define ENTER_TRIES 10
#define TRY_NS 50000000
#define CLEAR_BYTES (UINT64_C(256) << 20)

/* Clears all of the VF's device memory, also what its granules have beyond it, because GPU kernels
 * can access that. */
static CUresult clear(struct device *d)
{
	uint64_t at, n;
	CUresult e;

	for (at = 0; at < d->reserved; at += n) {
		n = d->reserved - at < CLEAR_BYTES ? d->reserved - at : CLEAR_BYTES;
		e = d->api.cuMemsetD8Async(d->memory_at + at, 0, n, d->stream);
		if (e != CUDA_SUCCESS)
			return e;
		e = d->api.cuStreamSynchronize(d->stream);
		if (e != CUDA_SUCCESS)
			return e;
	}
	return CUDA_SUCCESS;
}

static struct cu_allocation of_gpu(const struct device *d)
{
	return (struct cu_allocation){.type = 1, .location = {1, d->gpu}};
}

static uint64_t count(const struct device *d)
{
	return d->reserved / d->granule;
}

/* Releases the first N granules. Returns CUDA_SUCCESS, or the first error. */
static CUresult release(struct device *d, uint64_t n)
{
	CUresult e = CUDA_SUCCESS, other;

	while (n-- > 0) {
		other = d->api.cuMemRelease(d->granules[n]);
		if (e == CUDA_SUCCESS)
			e = other;
	}
	return e;
}

/* Allocates all granules, with at most TRIES tries together. After an error no granule is
 * allocated. */
static CUresult create(struct device *d, int tries)
{
	const struct cu_allocation what = of_gpu(d);
	const struct timespec pause = {.tv_nsec = TRY_NS};
	CUresult e = CUDA_SUCCESS;
	uint64_t i;

	for (i = 0; i < count(d) && e == CUDA_SUCCESS; i += e == CUDA_SUCCESS)
		while ((e = d->api.cuMemCreate(&d->granules[i], d->granule, &what, 0)) ==
			       CUDA_ERROR_OUT_OF_MEMORY &&
		       --tries > 0)
			nanosleep(&pause, NULL);
	if (e != CUDA_SUCCESS)
		release(d, i);
	return e;
}

/* Allocates memory, maps it at the VF's addresses, clears it, and restores the mappings of the
 * arena. After an error nothing is allocated. */
static CUresult allocate(struct device *d, int tries)
{
	CUresult e = create(d, tries);
	bool lost = false;

	if (e != CUDA_SUCCESS)
		return e;
	e = cuda_map_granules(d, d->memory_at, 0, count(d), &lost);
	if (e == CUDA_SUCCESS) {
		e = clear(d);
		if (e == CUDA_SUCCESS)
			e = cuda_enter_arena(d, &lost);
		if (e != CUDA_SUCCESS)
			lost |= d->api.cuMemUnmap(d->memory_at, d->reserved) != CUDA_SUCCESS;
	}
	d->here = e == CUDA_SUCCESS;
	if (e != CUDA_SUCCESS && release(d, count(d)) != CUDA_SUCCESS)
		lost = true;
	return lost ? CUDA_ERROR_UNKNOWN : e;
}

int cuda_take_memory(struct device *d, struct vgpu_error *err)
{
	const struct cu_allocation what = of_gpu(d);
	size_t grain = 0;
	CUresult e;

	if (d->behind == 0)
		return 0;
	e = d->api.cuMemGetAllocationGranularity(&grain, &what, 0);
	if (e != CUDA_SUCCESS || grain == 0)
		return cuda_failed(d, e, "the granularity of the GPU's memory cannot be read", err);
	d->granule = grain;
	d->reserved = (d->behind + grain - 1) / grain * grain;
	d->granules = calloc(count(d), sizeof(*d->granules));
	if (!d->granules)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	e = d->api.cuMemAddressReserve(&d->memory_at, d->reserved, 0, 0, 0);
	if (e == CUDA_SUCCESS)
		e = allocate(d, START_TRIES);
	if (e == CUDA_ERROR_OUT_OF_MEMORY)
		return vgpu_error_set(
			err, -ENOMEM,
			"%s has less than %llu MiB free: end other programs on it, or lower --vram",
			d->name, (unsigned long long)(d->reserved >> 20));
	if (e != CUDA_SUCCESS)
		return cuda_failed(d, e, "the VF's device memory cannot be allocated", err);
	return 0;
}

int cuda_copy(struct device *d, uint64_t at, uint64_t bytes, bool out)
{
	const CUdeviceptr memory = d->memory_at + at;
	CUresult e = d->api.cuCtxSetCurrent(d->context);

	if (e == CUDA_SUCCESS)
		e = d->api.cuMemcpyAsync(out ? d->stage_at : memory, out ? memory : d->stage_at,
					 bytes, d->stream);
	if (e == CUDA_SUCCESS)
		e = d->api.cuStreamSynchronize(d->stream);
	return e == CUDA_SUCCESS ? 0 : -EIO;
}

int cuda_leave(struct device *d)
{
	CUresult e;

	if (!d->here)
		return 0;
	e = d->api.cuCtxSetCurrent(d->context);
	if (e == CUDA_SUCCESS)
		e = clear(d);
	if (e == CUDA_SUCCESS)
		e = cuda_leave_arena(d);
	if (e == CUDA_SUCCESS)
		e = d->api.cuMemUnmap(d->memory_at, d->reserved);
	if (e == CUDA_SUCCESS)
		e = release(d, count(d));
	d->here = false;
	return e == CUDA_SUCCESS ? 0 : -EIO;
}

int cuda_enter(struct device *d)
{
	CUresult e;

	if (d->here || d->behind == 0)
		return 0;
	e = d->api.cuCtxSetCurrent(d->context);
	if (e == CUDA_SUCCESS)
		e = allocate(d, ENTER_TRIES);
	return e == CUDA_SUCCESS ? 0 : e == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}
