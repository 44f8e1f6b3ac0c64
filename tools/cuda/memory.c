/* SPDX-License-Identifier: MIT */
/* Allocations: the VF's device memory, which lies behind its window, is given out here. The host
 * counts nothing: the VF has that memory and no other. */
#include "library.h"

bool memory_find(CUdeviceptr at, uint64_t bytes, uint64_t *offset)
{
	uint64_t in = at - link_about.memory_at, begin, size;

	if (at < link_about.memory_at || in >= link_parts.memory_size ||
	    !heap_find(in, &begin, &size) || bytes > size - (in - begin))
		return false;
	*offset = link_parts.memory_at + in;
	return true;
}

CUresult cuMemGetInfo_v2(size_t *left, size_t *all)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && (!left || !all))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS) {
		*left = heap_left();
		*all = link_parts.memory_size;
	}
	return CALL_END(e);
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	struct context *c;
	uint64_t offset;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS && (!out || bytes == 0))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !heap_take(bytes, c, &offset))
		e = CUDA_ERROR_OUT_OF_MEMORY;
	if (e == CUDA_SUCCESS)
		*out = link_about.memory_at + offset;
	return CALL_END(e);
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);

	if (e == CUDA_SUCCESS && at != 0 &&
	    (at < link_about.memory_at || !heap_give(at - link_about.memory_at)))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
	CUresult e = call_begin(NEEDS_CONTEXT, NULL);
	uint64_t begin, size;

	if (e == CUDA_SUCCESS &&
	    (at < link_about.memory_at || !heap_find(at - link_about.memory_at, &begin, &size)))
		e = CUDA_ERROR_NOT_FOUND;
	if (e == CUDA_SUCCESS && base)
		*base = link_about.memory_at + begin;
	if (e == CUDA_SUCCESS && bytes)
		*bytes = size;
	return CALL_END(e);
}
