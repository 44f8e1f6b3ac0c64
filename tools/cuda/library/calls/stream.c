/* SPDX-License-Identifier: MIT */
/*
 * Streams. The VF executes everything in the order of the calls, whatever their streams;
 * that is one of the orders that CUDA permits. So a stream never waits for another one's event,
 * unless another process has recorded it, and waiting for a stream waits for all.
 */
#include <stdlib.h>

#include "capture.h"
#include "cuda_calls.h"

#define STREAM_FLAGS 1u /* CU_STREAM_NON_BLOCKING */

static void end_stream(struct stream *stream)
{
	capture_abandon(stream);
	handle_drop(HANDLE_STREAM, stream->handle);
	free(stream);
}

void stream_end_all(const struct context *context)
{
	struct stream *stream;
	uint32_t at;

	for (at = 0; (stream = handle_next(HANDLE_STREAM, &at));)
		if (stream->context == context)
			end_stream(stream);
}

static uint64_t n_streams = STREAM_DEFAULTS;

static CUresult create_stream(CUstream *out, unsigned flags, const struct context *context)
{
	struct stream *stream;

	if (!out || flags & ~STREAM_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	stream = calloc(1, sizeof(*stream));
	if (stream)
		stream->handle = handle_make(HANDLE_STREAM, stream);
	if (!stream || !stream->handle) {
		free(stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stream->context = context;
	stream->flags = flags;
	stream->number = ++n_streams;
	*out = stream->handle;
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	return CALL_END(e == CUDA_SUCCESS ? create_stream(out, flags, c) : e);
}

/* CUDA documents that priorities outside the range are brought into it; here the range is one
 * priority. */
CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int)
{
	struct context *c;
	CUresult e = call_begin(NEEDS_CONTEXT, &c);

	return CALL_END(e == CUDA_SUCCESS ? create_stream(out, flags, c) : e);
}

CUresult cuStreamDestroy_v2(CUstream s)
{
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	if (e == CUDA_SUCCESS && stream == &stream_default)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS)
		end_stream(stream);
	return CALL_END(e);
}
CALL_FIRST(cuStreamDestroy, cuStreamDestroy_v2);

static CUresult query_stream(struct stream *stream)
{
	bool reached = true;
	CUresult e = CUDA_SUCCESS;

	if (stream->last <= link_done())
		return link_lost();
	if (stream->last > stream->fenced) {
		e = link_fence(&stream->fence);
		stream->fenced = stream->last;
	}
	if (e == CUDA_SUCCESS)
		e = link_reached(stream->fence, &reached);
	return e == CUDA_SUCCESS && !reached ? CUDA_ERROR_NOT_READY : e;
}

CUresult cuStreamQuery(CUstream s)
{
	struct stream *stream;
	CUresult e = put_begin(s, &stream);

	return CALL_END(e == CUDA_SUCCESS ? query_stream(stream) : e);
}

CUresult cuStreamSynchronize(CUstream s)
{
	struct stream *stream;
	CUresult e = put_begin(s, &stream);

	return CALL_END(e == CUDA_SUCCESS ? link_wait() : e);
}
