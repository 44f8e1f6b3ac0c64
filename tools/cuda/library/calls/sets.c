/* SPDX-License-Identifier: MIT */
/* Calls that set device memory, or write 32 or 64 bits of it in a stream. */
#include "cuda_calls.h"

static CUresult put_set(CUstream s, const struct work_set *set)
{
	const struct work w = {.kind = WORK_SET, .set = *set};
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	return e == CUDA_SUCCESS ? put_work(stream, &w) : e;
}

/* A set without a stream must have ended when the call returns if the memory is host memory. */
static CUresult put_now(const struct work_set *set)
{
	CUresult e = put_set(NULL, set);

	return e == CUDA_SUCCESS && pinned_find((const void *)(uintptr_t)set->at) ? link_wait() : e;
}

#define ROW(dst, value, n) (&(struct work_set){dst, 0, n, 1, value, sizeof(value)})
#define ROWS(dst, pitch, value, n, rows)                                                           \
	(&(struct work_set){dst, pitch, n, rows, value, sizeof(value)})

#define SET(bits, type)                                                                            \
	CUresult cuMemsetD##bits##_v2(CUdeviceptr dst, type value, size_t n)                       \
	{                                                                                          \
		return CALL_END(put_now(ROW(dst, value, n)));                                      \
	}                                                                                          \
	CUresult cuMemsetD##bits##Async(CUdeviceptr dst, type value, size_t n, CUstream s)         \
	{                                                                                          \
		return CALL_END(put_set(s, ROW(dst, value, n)));                                   \
	}                                                                                          \
	CUresult cuMemsetD2D##bits##_v2(CUdeviceptr dst, size_t pitch, type value, size_t n,       \
					size_t rows)                                               \
	{                                                                                          \
		return CALL_END(put_now(ROWS(dst, pitch, value, n, rows)));                        \
	}                                                                                          \
	CUresult cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type value, size_t n,     \
					  size_t rows, CUstream s)                                 \
	{                                                                                          \
		return CALL_END(put_set(s, ROWS(dst, pitch, value, n, rows)));                     \
	}

SET(8, unsigned char)
SET(16, unsigned short)
SET(32, unsigned)

/* FLAGS say whether earlier writes must be visible first. They always are, because all streams have
 * one order. */
static CUresult write_value(CUstream s, CUdeviceptr at, uint64_t value, uint32_t bytes,
			    unsigned flags)
{
	const struct work w = {.kind = WORK_SET, .set = {at, 0, 1, 1, value, bytes}};
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	if (e == CUDA_SUCCESS && (flags > 1 || at % bytes))
		e = CUDA_ERROR_INVALID_VALUE;
	return e == CUDA_SUCCESS ? put_work(stream, &w) : e;
}

CUresult cuStreamWriteValue32_v2(CUstream s, CUdeviceptr at, uint32_t value, unsigned flags)
{
	return CALL_END(write_value(s, at, value, 4, flags));
}
CALL_FIRST(cuStreamWriteValue32, cuStreamWriteValue32_v2);

CUresult cuStreamWriteValue64_v2(CUstream s, CUdeviceptr at, uint64_t value, unsigned flags)
{
	return CALL_END(write_value(s, at, value, 8, flags));
}
CALL_FIRST(cuStreamWriteValue64, cuStreamWriteValue64_v2);
