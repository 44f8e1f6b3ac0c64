/* SPDX-License-Identifier: MIT */
/* Calls that query attributes of streams. */
#include <string.h>

#include "cuda_calls.h"

/* Begins a call about the stream S, and finds it. OK: whether the call's other arguments are
 * valid. */
static CUresult begin_stream(CUstream s, struct stream **stream, bool ok)
{
	CUresult e = work_begin(s, stream);

	return e == CUDA_SUCCESS && !ok ? CUDA_ERROR_INVALID_VALUE : e;
}

/* The library has one priority. */
CUresult cuStreamGetPriority(CUstream s, int *priority)
{
	struct stream *stream;
	CUresult e = begin_stream(s, &stream, priority);

	if (e == CUDA_SUCCESS)
		*priority = 0;
	return CALL_END(e);
}

CUresult cuStreamGetFlags(CUstream s, unsigned *flags)
{
	struct stream *stream;
	CUresult e = begin_stream(s, &stream, flags);

	if (e == CUDA_SUCCESS)
		*flags = stream->flags;
	return CALL_END(e);
}

CUresult cuStreamGetId(CUstream s, uint64_t *id)
{
	struct stream *stream;
	CUresult e = begin_stream(s, &stream, id);

	if (e == CUDA_SUCCESS)
		*id = stream->handle ? stream->number : (uintptr_t)s;
	return CALL_END(e);
}

CUresult cuStreamGetCtx(CUstream s, CUcontext *out)
{
	struct stream *stream;
	CUresult e = begin_stream(s, &stream, out);

	if (e == CUDA_SUCCESS)
		*out = stream->context ? stream->context->handle : call_current()->handle;
	return CALL_END(e);
}

/* CUstreamAttrID */
enum { ATTRIBUTE_WINDOW = 1, ATTRIBUTE_WAIT = 3, ATTRIBUTE_PRIORITY = 8 };
#define WAITS 4 /* CUsynchronizationPolicy: from 1, which is for the driver to choose */

/* Returns the hint for the attribute WHICH, or STREAM_HINTS. */
static enum stream_hint hint_of(int which)
{
	if (which == ATTRIBUTE_WINDOW)
		return HINT_WINDOW;
	return which == ATTRIBUTE_WAIT ? HINT_WAIT : STREAM_HINTS;
}

static bool is_attribute(int which)
{
	return which == ATTRIBUTE_PRIORITY || hint_of(which) != STREAM_HINTS;
}

CUresult cuStreamGetAttribute(CUstream s, int which, union cuda_value *value)
{
	struct stream *stream;
	CUresult e = begin_stream(s, &stream, value && is_attribute(which));

	if (e == CUDA_SUCCESS)
		*value = which == ATTRIBUTE_PRIORITY ? (union cuda_value){.value = 0}
						     : stream->hints[hint_of(which)];
	if (e == CUDA_SUCCESS && which == ATTRIBUTE_WAIT && value->value == 0)
		value->value = 1;
	return CALL_END(e);
}

static bool may_be(int which, const union cuda_value *value)
{
	if (which == ATTRIBUTE_PRIORITY)
		return value->value == 0;
	return which != ATTRIBUTE_WAIT || (value->value >= 1 && value->value <= WAITS);
}

CUresult cuStreamSetAttribute(CUstream s, int which, const union cuda_value *value)
{
	struct stream *stream;
	CUresult e = begin_stream(s, &stream, value && is_attribute(which) && may_be(which, value));

	if (e == CUDA_SUCCESS && which != ATTRIBUTE_PRIORITY)
		stream->hints[hint_of(which)] = *value;
	return CALL_END(e);
}

CUresult cuStreamCopyAttributes(CUstream s, CUstream from)
{
	struct stream *stream, *other;
	CUresult e = begin_stream(s, &stream, true);

	other = e == CUDA_SUCCESS ? stream_find(from) : NULL;
	if (e == CUDA_SUCCESS && !other)
		e = CUDA_ERROR_INVALID_HANDLE;
	if (e == CUDA_SUCCESS)
		memcpy(stream->hints, other->hints, sizeof(stream->hints));
	return CALL_END(e);
}
