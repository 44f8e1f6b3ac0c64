/* SPDX-License-Identifier: MIT */
/* Memory pools, and allocation in the order of a stream. All streams have one order, so memory is
 * allocated and freed at once; a pool only owns allocations and keeps no free memory. */
#include <stdlib.h>

#include "cuda_calls.h"

/* CUmemPool_attribute */
enum {
	POOL_FOLLOW_EVENTS = 1,
	POOL_OPPORTUNISTIC,
	POOL_INTERNAL_DEPENDENCIES,
	POOL_RELEASE_THRESHOLD,
	POOL_RESERVED,
	POOL_RESERVED_MOST,
	POOL_USED,
	POOL_USED_MOST,
};
enum { TYPE_PINNED = 1, LOCATION_DEVICE = 1 };

struct pool {
	void *handle;
	uint64_t threshold, most;
	int reuse[POOL_INTERNAL_DEPENDENCIES + 1];
};

static struct pool of_device; /* the default pool */
static void *current;	      /* handle of the pool that the device allocates from; NULL: the
			       * default pool */

static void begin_pool(struct pool *p)
{
	int i;

	*p = (struct pool){.handle = handle_make(HANDLE_POOL, p)};
	for (i = POOL_FOLLOW_EVENTS; i <= POOL_INTERNAL_DEPENDENCIES; i++)
		p->reuse[i] = 1;
}

/* Begins a call about DEVICE; makes the default pool in the first one. OK: whether the call's other
 * arguments are valid. */
static CUresult begin_device_pool(CUdevice device, bool ok)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	if (e == CUDA_SUCCESS && !of_device.handle)
		begin_pool(&of_device);
	if (e == CUDA_SUCCESS && !of_device.handle)
		e = CUDA_ERROR_OUT_OF_MEMORY;
	if (e == CUDA_SUCCESS && device != 0)
		e = CUDA_ERROR_INVALID_DEVICE;
	return e == CUDA_SUCCESS && !ok ? CUDA_ERROR_INVALID_VALUE : e;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
	CUresult e = begin_device_pool(device, out);

	if (e == CUDA_SUCCESS)
		*out = of_device.handle;
	return CALL_END(e);
}

static struct pool *current_pool(void)
{
	struct pool *p = handle_find(HANDLE_POOL, current);

	return p ? p : &of_device;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
	CUresult e = begin_device_pool(device, out);

	if (e == CUDA_SUCCESS)
		*out = current_pool()->handle;
	return CALL_END(e);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CUresult e = begin_device_pool(device, true);

	if (e == CUDA_SUCCESS && !handle_find(HANDLE_POOL, pool))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		current = pool;
	return CALL_END(e);
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const struct cuda_pool_props *props)
{
	CUresult e = begin_device_pool(0, out && props);
	struct pool *p;

	if (e == CUDA_SUCCESS && (props->type != TYPE_PINNED || props->security ||
				  props->location.type != LOCATION_DEVICE || props->location.id))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && props->handles)
		e = CUDA_ERROR_NOT_SUPPORTED;
	if (e != CUDA_SUCCESS)
		return CALL_END(e);
	p = calloc(1, sizeof(*p));
	if (p)
		begin_pool(p);
	if (!p || !p->handle) {
		free(p);
		return CALL_END(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*out = p->handle;
	return CALL_END(CUDA_SUCCESS);
}

/* Begins a call about the pool H, and finds it. OK: whether the call's other arguments are
 * valid. */
static CUresult find(CUmemoryPool h, struct pool **p, bool ok)
{
	CUresult e = begin_device_pool(0, true);

	*p = handle_find(HANDLE_POOL, h);
	return e == CUDA_SUCCESS && (!*p || !ok) ? CUDA_ERROR_INVALID_VALUE : e;
}

/* Allocations of the pool remain until they are freed. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct pool *p;
	CUresult e = find(pool, &p, true);

	if (e == CUDA_SUCCESS && p == &of_device)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS) {
		heap_disown(p);
		handle_drop(HANDLE_POOL, pool);
		free(p);
	}
	return CALL_END(e);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int which, void *value)
{
	struct pool *p;
	CUresult e = find(pool, &p, value);

	if (e != CUDA_SUCCESS)
		return CALL_END(e);
	switch (which) {
	case POOL_FOLLOW_EVENTS:
	case POOL_OPPORTUNISTIC:
	case POOL_INTERNAL_DEPENDENCIES:
		*(int *)value = p->reuse[which];
		break;
	case POOL_RELEASE_THRESHOLD:
		*(uint64_t *)value = p->threshold;
		break;
	case POOL_RESERVED:
	case POOL_USED:
		*(uint64_t *)value = heap_of(p);
		break;
	case POOL_RESERVED_MOST:
	case POOL_USED_MOST:
		*(uint64_t *)value = p->most;
		break;
	default:
		e = CUDA_ERROR_INVALID_VALUE;
	}
	return CALL_END(e);
}

/* Attributes that keep memory in the pool, or return it early, have no effect here. */
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int which, void *value)
{
	struct pool *p;
	CUresult e = find(pool, &p, value);

	if (e != CUDA_SUCCESS)
		return CALL_END(e);
	switch (which) {
	case POOL_FOLLOW_EVENTS:
	case POOL_OPPORTUNISTIC:
	case POOL_INTERNAL_DEPENDENCIES:
		p->reuse[which] = *(int *)value != 0;
		break;
	case POOL_RELEASE_THRESHOLD:
		p->threshold = *(uint64_t *)value;
		break;
	case POOL_RESERVED_MOST:
	case POOL_USED_MOST: /* can only be reset to what is used now */
		e = *(uint64_t *)value ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
		p->most = e == CUDA_SUCCESS ? heap_of(p) : p->most;
		break;
	default:
		e = CUDA_ERROR_INVALID_VALUE;
	}
	return CALL_END(e);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t)
{
	struct pool *p;

	return CALL_END(find(pool, &p, true));
}

/* The one device has access to all pools. */
CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, struct cuda_location *location)
{
	struct pool *p;
	CUresult e = find(pool, &p, flags && location);

	if (e == CUDA_SUCCESS && (location->type != LOCATION_DEVICE || location->id))
		e = CUDA_ERROR_INVALID_DEVICE;
	if (e == CUDA_SUCCESS)
		*flags = 3; /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
	return CALL_END(e);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const struct cuda_access *access, size_t n)
{
	struct pool *p;
	CUresult e = find(pool, &p, access || n == 0);
	size_t i;

	for (i = 0; i < n && e == CUDA_SUCCESS; i++)
		if (access[i].location.type != LOCATION_DEVICE || access[i].location.id)
			e = CUDA_ERROR_INVALID_DEVICE;
		else if (access[i].flags != 3)
			e = CUDA_ERROR_INVALID_VALUE; /* CUDA's error for a pool's own device */
	return CALL_END(e);
}

/* Begins a call that allocates from POOL or, unless NAMED, from the current pool. */
static CUresult allocate(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, bool named, CUstream s)
{
	struct stream *stream;
	struct pool *p;
	uint64_t offset;
	CUresult e = put_begin(s, &stream);

	if (e != CUDA_SUCCESS)
		return e;
	p = named ? handle_find(HANDLE_POOL, pool) : current_pool();
	if (!out || bytes == 0 || !p)
		return CUDA_ERROR_INVALID_VALUE;
	if (!heap_take(bytes, p, &offset))
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->most = heap_of(p) > p->most ? heap_of(p) : p->most;
	*out = link_about.memory_at + offset;
	return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream s)
{
	return CALL_END(allocate(out, bytes, NULL, false, s));
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream s)
{
	return CALL_END(allocate(out, bytes, pool, true, s));
}

CUresult cuMemFreeAsync(CUdeviceptr at, CUstream s)
{
	struct stream *stream;
	CUresult e = put_begin(s, &stream);

	if (e == CUDA_SUCCESS && at != 0 &&
	    (at < link_about.memory_at || !heap_give(at - link_about.memory_at)))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e);
}
