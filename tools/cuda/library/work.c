/* SPDX-License-Identifier: MIT */
/* What a stream executes: dispatch by the kind of work. */
#include "cuda_work.h"

struct stream stream_default;

CUresult work_begin(CUstream s, struct stream **stream)
{
	/* A default stream is one of the current context. */
	const bool is_default = (uintptr_t)s <= STREAM_DEFAULTS;
	CUresult e = call_begin(is_default ? NEEDS_CONTEXT : NEEDS_OWNER, NULL);

	*stream = e == CUDA_SUCCESS ? stream_find(s) : NULL;
	return e == CUDA_SUCCESS && !*stream ? CUDA_ERROR_INVALID_HANDLE : e;
}

CUresult work_check(const struct work *w)
{
	switch (w->kind) {
	case WORK_COPY:
		return copy_check(&w->copy);
	case WORK_SET:
		return set_check(&w->set);
	case WORK_LAUNCH:
		return launch_check(&w->launch);
	default:
		return CUDA_SUCCESS;
	}
}

/* Runs a function of the program in the calling thread, after the end of all earlier work. */
static CUresult host_call(const struct work_host *w)
{
	CUresult e = link_wait();

	if (e != CUDA_SUCCESS)
		return e;
	/* Release the lock, because the function may wait for a thread that makes calls. */
	lock_give();
	output_write();
	w->run(w->data);
	lock_take();
	return link_lost();
}

CUresult work_run(const struct work *w)
{
	switch (w->kind) {
	case WORK_COPY:
		return copy_run(&w->copy);
	case WORK_SET:
		return set_run(&w->set);
	case WORK_LAUNCH:
		return launch_run(&w->launch);
	case WORK_HOST:
		return host_call(&w->host);
	case WORK_EVENT:
		return event_run(w->event);
	case WORK_WAIT:
		return event_wait(w->event);
	default:
		return CUDA_SUCCESS;
	}
}
