/* SPDX-License-Identifier: MIT */
/* What a stream executes: at once, or as a part of the graph that the stream captures. */
#include "capture.h"
#include "library.h"

CUresult work_begin(CUstream s, struct stream **stream)
{
	/* A default stream is the current context's. */
	const bool is_default = (uintptr_t)s <= STREAM_DEFAULTS;
	CUresult e = call_begin(is_default ? NEEDS_CONTEXT : NEEDS_OWNER, NULL);

	*stream = e == CUDA_SUCCESS ? stream_find(s) : NULL;
	return e == CUDA_SUCCESS && !*stream ? CUDA_ERROR_INVALID_HANDLE : e;
}

CUresult work_begin_now(CUstream s, struct stream **stream)
{
	CUresult e = work_begin(s, stream);

	return e == CUDA_SUCCESS && (*stream)->capture ? capture_break(*stream) : e;
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

CUresult work_put(struct stream *s, const struct work *w)
{
	CUresult e;

	if (s->capture) {
		e = work_check(w);
		return e == CUDA_SUCCESS ? capture_add(s, w) : e;
	}
	e = work_run(w);
	/* While a function of the program ran, S may have gone; and it waits for nothing more. */
	if (w->kind != WORK_HOST)
		s->last = link_count();
	return e;
}
