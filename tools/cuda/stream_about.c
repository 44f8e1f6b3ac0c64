/* SPDX-License-Identifier: MIT */
/* What streams tell of themselves. */
#include "library.h"

/* Begins a call about the stream S. OK: whether its other arguments are right. */
static CUresult begin(CUstream s, struct stream **stream, bool ok)
{
	CUresult e = work_begin(s, stream);

	return e == CUDA_SUCCESS && !ok ? CUDA_ERROR_INVALID_VALUE : e;
}

/* There is one priority. */
CUresult cuStreamGetPriority(CUstream s, int *priority)
{
	struct stream *stream;
	CUresult e = begin(s, &stream, priority);

	if (e == CUDA_SUCCESS)
		*priority = 0;
	return CALL_END(e);
}

CUresult cuStreamGetFlags(CUstream s, unsigned *flags)
{
	struct stream *stream;
	CUresult e = begin(s, &stream, flags);

	if (e == CUDA_SUCCESS)
		*flags = stream->flags;
	return CALL_END(e);
}

CUresult cuStreamGetId(CUstream s, uint64_t *id)
{
	struct stream *stream;
	CUresult e = begin(s, &stream, id);

	if (e == CUDA_SUCCESS)
		*id = stream->handle ? stream->number : (uintptr_t)s;
	return CALL_END(e);
}

CUresult cuStreamGetCtx(CUstream s, CUcontext *out)
{
	struct stream *stream;
	CUresult e = begin(s, &stream, out);

	if (e == CUDA_SUCCESS)
		*out = stream->context ? stream->context->handle : call_current()->handle;
	return CALL_END(e);
}
