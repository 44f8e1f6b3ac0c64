/* SPDX-License-Identifier: MIT */
/* Functions of the program that a stream calls. They run in the thread that asks for them, when all
 * that came before is done: a later call finds them done. */
#include "library.h"

CUresult host_call(const struct work_host *w)
{
	CUresult e = link_wait();

	if (e != CUDA_SUCCESS)
		return e;
	/* The function may wait for a thread that makes calls. */
	call_unlock();
	w->run(w->data);
	call_lock();
	return link_lost();
}

CUresult cuLaunchHostFunc(CUstream s, void (*run)(void *), void *data)
{
	const struct work w = {.kind = WORK_HOST, .host = {run, data}};
	struct stream *stream;
	CUresult e = work_begin(s, &stream);

	if (e == CUDA_SUCCESS)
		e = run ? work_put(stream, &w) : CUDA_ERROR_INVALID_VALUE;
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

/* As CUDA says: a callback is not captured. */
CUresult cuStreamAddCallback(CUstream s, void (*run)(CUstream, CUresult, void *), void *data,
			     unsigned flags)
{
	struct callback c = {run, s, data};
	const struct work w = {.kind = WORK_HOST, .host = {run_callback, &c}};
	struct stream *stream;
	CUresult e = work_begin_now(s, &stream);

	if (e == CUDA_SUCCESS)
		e = run && !flags ? work_put(stream, &w) : CUDA_ERROR_INVALID_VALUE;
	return CALL_END(e);
}
