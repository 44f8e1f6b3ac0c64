/* SPDX-License-Identifier: MIT */
/* Functions of the program that a stream calls. They run in the calling thread, after all earlier
 * work has ended and before the call returns. */
#include "cuda_calls.h"

CUresult cuLaunchHostFunc(CUstream s, void (*run)(void *), void *data)
{
	const struct work w = {.kind = WORK_HOST, .host = {run, data}};
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	if (e == CUDA_SUCCESS)
		e = run ? put_work(stream, &w) : CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e);
}

struct callback {
	void (*run)(CUstream s, CUresult e, void *data);
	CUstream stream;
	void *data;
};

static void run_callback(void *data)
{
	const struct callback *c = data;

	c->run(c->stream, CUDA_SUCCESS, c->data);
}

/* A callback cannot be captured, as in CUDA. */
CUresult cuStreamAddCallback(CUstream s, void (*run)(CUstream, CUresult, void *), void *data,
			     unsigned flags)
{
	struct callback c = {run, s, data};
	const struct work w = {.kind = WORK_HOST, .host = {run_callback, &c}};
	struct stream *stream;
	CUresult e = put_begin(s, &stream);

	if (e == CUDA_SUCCESS)
		e = run && !flags ? put_work(stream, &w) : CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e);
}
