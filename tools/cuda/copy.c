/* SPDX-License-Identifier: MIT */
/* Copies and sets. Data of the program goes through the window: it was copied out of the program's
 * memory when a copy to the device returns, and a copy from the device has ended when it returns.
 * CUDA permits both for memory that is not pinned. */
#include <string.h>

#include "library.h"

/* Parts of the window that one step of a copy uses, so that the next can be filled meanwhile. */
#define STEPS 4u

/* At most what one step copies of BYTES. */
static uint64_t step_of(uint64_t bytes)
{
	uint64_t most = link_stage_size() / STEPS;

	return bytes < most ? bytes : most;
}

static CUresult to_device(CUdeviceptr dst, const void *src, uint64_t bytes)
{
	uint64_t offset, done, n, at;
	CUresult e = CUDA_SUCCESS;
	uint8_t *memory;

	if (bytes == 0)
		return CUDA_SUCCESS;
	if (!src || !memory_find(dst, bytes, &offset))
		return CUDA_ERROR_INVALID_VALUE;
	for (done = 0; done < bytes && e == CUDA_SUCCESS; done += n) {
		n = step_of(bytes - done);
		e = link_stage(&n, &memory, &at);
		if (e != CUDA_SUCCESS)
			break;
		memcpy(memory, (const uint8_t *)src + done, n);
		e = link_put(SOFTGPU_UPLOAD, 0, (uint64_t[7]){offset + done, at, n});
		if (e == CUDA_SUCCESS)
			e = link_ring();
	}
	return e;
}

static CUresult to_host(void *dst, CUdeviceptr src, uint64_t bytes)
{
	uint64_t offset, done, n, at;
	CUresult e = CUDA_SUCCESS;
	uint8_t *memory;

	if (bytes == 0)
		return CUDA_SUCCESS;
	if (!dst || !memory_find(src, bytes, &offset))
		return CUDA_ERROR_INVALID_VALUE;
	for (done = 0; done < bytes && e == CUDA_SUCCESS; done += n) {
		n = step_of(bytes - done);
		e = link_stage(&n, &memory, &at);
		if (e == CUDA_SUCCESS)
			e = link_put(SOFTGPU_DOWNLOAD, 0, (uint64_t[7]){at, offset + done, n});
		if (e == CUDA_SUCCESS)
			e = link_wait();
		if (e == CUDA_SUCCESS)
			memcpy((uint8_t *)dst + done, memory, n);
	}
	return e;
}

static CUresult on_device(CUdeviceptr dst, CUdeviceptr src, uint64_t bytes)
{
	uint64_t to, from;
	CUresult e;

	if (bytes == 0 || dst == src)
		return CUDA_SUCCESS;
	if (!memory_find(dst, bytes, &to) || !memory_find(src, bytes, &from) ||
	    (to < from + bytes && from < to + bytes))
		return CUDA_ERROR_INVALID_VALUE;
	e = link_put(SOFTGPU_COPY, 0, (uint64_t[7]){to, from, bytes});
	return e == CUDA_SUCCESS ? link_ring() : e;
}

/* Writes PATTERN, which repeats every four bytes of address, to the few bytes that FILL cannot: it
 * writes aligned words. */
static CUresult set_rest(CUdeviceptr dst, uint32_t pattern, uint64_t bytes)
{
	uint8_t rest[4];
	uint64_t i;

	for (i = 0; i < bytes; i++)
		rest[i] = (uint8_t)(pattern >> 8 * ((dst + i) % 4));
	return to_device(dst, rest, bytes);
}

/* N elements of UNIT bytes (1, 2 or 4). */
static CUresult set(CUdeviceptr dst, uint32_t value, uint64_t n, uint32_t unit)
{
	uint32_t pattern = unit == 1   ? value * 0x01010101u
			   : unit == 2 ? value * 0x00010001u
				       : value;
	uint64_t bytes = n * unit, offset, head, words;
	CUresult e;

	if (n == 0)
		return CUDA_SUCCESS;
	if (n > UINT64_MAX / unit || dst % unit || !memory_find(dst, bytes, &offset))
		return CUDA_ERROR_INVALID_VALUE;
	head = (4 - dst % 4) % 4;
	head = head < bytes ? head : bytes;
	words = (bytes - head) / 4 * 4;
	e = set_rest(dst, pattern, head);
	if (e == CUDA_SUCCESS && words > 0)
		e = link_put(SOFTGPU_FILL, 0, (uint64_t[7]){offset + head, words, pattern});
	if (e == CUDA_SUCCESS)
		e = set_rest(dst + head + words, pattern, bytes - head - words);
	return e == CUDA_SUCCESS ? link_ring() : e;
}

/* Begins a call that puts something into the stream S. */
static CUresult begin(CUstream s, struct stream **stream)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	*stream = e == CUDA_SUCCESS ? stream_find(s, c) : NULL;
	return e == CUDA_SUCCESS && !*stream ? CUDA_ERROR_INVALID_HANDLE : e;
}

/* The body of such a call. */
#define PUT(s, call)                                                                               \
	struct stream *stream;                                                                     \
	CUresult e = begin(s, &stream);                                                            \
                                                                                                   \
	if (e == CUDA_SUCCESS) {                                                                   \
		e = call;                                                                          \
		stream->last = link_count();                                                       \
	}                                                                                          \
	return CALL_END(e)

#define COPY(symbol, copy, dst, src)                                                               \
	CUresult symbol##_v2(dst to, src from, size_t bytes)                                       \
	{                                                                                          \
		PUT(NULL, copy(to, from, bytes));                                                  \
	}                                                                                          \
	CUresult symbol##Async_v2(dst to, src from, size_t bytes, CUstream s)                      \
	{                                                                                          \
		PUT(s, copy(to, from, bytes));                                                     \
	}

COPY(cuMemcpyHtoD, to_device, CUdeviceptr, const void *)
COPY(cuMemcpyDtoH, to_host, void *, CUdeviceptr)
COPY(cuMemcpyDtoD, on_device, CUdeviceptr, CUdeviceptr)

#define SET(symbol, async, type)                                                                   \
	CUresult symbol(CUdeviceptr dst, type value, size_t n)                                     \
	{                                                                                          \
		PUT(NULL, set(dst, value, n, sizeof(value)));                                      \
	}                                                                                          \
	CUresult async(CUdeviceptr dst, type value, size_t n, CUstream s)                          \
	{                                                                                          \
		PUT(s, set(dst, value, n, sizeof(value)));                                         \
	}

SET(cuMemsetD8_v2, cuMemsetD8Async, unsigned char)
SET(cuMemsetD16_v2, cuMemsetD16Async, unsigned short)
SET(cuMemsetD32_v2, cuMemsetD32Async, unsigned)
