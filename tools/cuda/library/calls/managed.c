/* SPDX-License-Identifier: MIT */
/*
 * Managed memory, which the program and GPU kernels access at one address. It is pinned memory:
 * nothing migrates, and GPU kernels access it over the bus. The attribute for concurrent access is
 * 0, so by CUDA's rules the program must not access it while a GPU kernel that uses it runs.
 */
#include "cuda_calls.h"

/* CUmemAttach_flags */
enum { ATTACH_GLOBAL = 1, ATTACH_HOST = 2, ATTACH_SINGLE = 4 };

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	if (e == CUDA_SUCCESS &&
	    (!out || bytes == 0 || (flags != ATTACH_GLOBAL && flags != ATTACH_HOST)))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !link_window_is_unified())
		e = CUDA_ERROR_NOT_SUPPORTED;
	if (e == CUDA_SUCCESS)
		e = pinned_take_managed(out, bytes, c);
	return CALL_END(e);
}

/* Attaching memory to a stream has no effect, because all streams have one order. */
CUresult cuStreamAttachMemAsync(CUstream s, CUdeviceptr at, size_t bytes, unsigned flags)
{
	const struct pinned *p;
	struct stream *stream;
	CUresult e = put_begin(s, &stream);

	if (e != CUDA_SUCCESS)
		return CALL_END(e);
	p = pinned_find((const void *)(uintptr_t)at);
	if (!p || p->kind != PINNED_MANAGED || (uintptr_t)p->at != at ||
	    (bytes != 0 && bytes != p->bytes) ||
	    (flags != ATTACH_GLOBAL && flags != ATTACH_HOST && flags != ATTACH_SINGLE))
		e = CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e);
}
