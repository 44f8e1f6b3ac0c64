/* SPDX-License-Identifier: MIT */
/* Executes work in a stream, or adds it to the graph that the stream captures. */
#include "put.h"

#include "capture.h"

static enum node_type type_of(enum work_kind kind)
{
	static const enum node_type types[] = {
		[WORK_NOTHING] = NODE_EMPTY, [WORK_COPY] = NODE_COPY, [WORK_SET] = NODE_SET,
		[WORK_LAUNCH] = NODE_KERNEL, [WORK_HOST] = NODE_HOST, [WORK_EVENT] = NODE_RECORD,
		[WORK_WAIT] = NODE_WAIT,
	};

	return types[kind];
}

static CUresult capture_add(struct stream *s, const struct work *w)
{
	struct capture *c = s->capture;
	struct node *node;

	if (c->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	node = graph_add(c->graph, type_of(w->kind), w, s->tips.nodes, s->tips.n);
	node_list_clear(&s->tips);
	if (node && node_list_add(&s->tips, node))
		return CUDA_SUCCESS;
	c->broken = true;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult spoil(struct stream *s)
{
	s->capture->broken = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult put_begin(CUstream s, struct stream **stream)
{
	CUresult e = work_begin(s, stream);

	return e == CUDA_SUCCESS && (*stream)->capture ? spoil(*stream) : e;
}

CUresult put_work(struct stream *s, const struct work *w)
{
	CUresult e;

	if (s->capture) {
		e = work_check(w);
		return e == CUDA_SUCCESS ? capture_add(s, w) : e;
	}
	e = work_run(w);
	/* The program's function may have destroyed S. */
	if (w->kind != WORK_HOST)
		s->last = link_count();
	return e;
}
