/* SPDX-License-Identifier: MIT */
#include "capture.h"

#include <stdlib.h>

#include "event.h"

/* CUstreamCaptureMode: which calls of other threads invalidate a capture; here none does. */
enum { MODE_GLOBAL, MODES = 3 };
/* CUstreamCaptureStatus */
enum { STATUS_NONE = 0, STATUS_ACTIVE, STATUS_BROKEN };

static uint64_t n_captures;
static __thread int mode;

/* Adds the nodes of FROM to TO. */
static CUresult join(struct capture *c, struct node_list *to, const struct node_list *from)
{
	uint32_t i;

	for (i = 0; i < from->n; i++)
		if (!node_list_add(to, from->nodes[i])) {
			c->broken = true;
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	return CUDA_SUCCESS;
}

CUresult capture_record(struct stream *s, struct captured_event *e)
{
	if (s->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	event_forget(e);
	e->capture = s->capture;
	return join(s->capture, &e->tips, &s->tips);
}

CUresult capture_wait(struct stream *s, struct captured_event *e)
{
	if (s->capture && s->capture != e->capture) {
		s->capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (e->capture->broken)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	s->capture = e->capture;
	return join(s->capture, &s->tips, &e->tips);
}

/* Ends the capture. Its graph must be NULL, or have another owner. */
static void end(struct capture *c)
{
	struct stream *stream;
	struct event *event;
	uint32_t at;

	for (at = 0; (stream = handle_next(HANDLE_STREAM, &at));)
		if (stream->capture == c) {
			stream->capture = NULL;
			node_list_clear(&stream->tips);
		}
	for (at = 0; (event = handle_next(HANDLE_EVENT, &at));)
		if (event->captured.capture == c)
			event_forget(&event->captured);
	free(c->handles);
	free(c);
}

void capture_abandon(struct stream *s)
{
	struct capture *c = s->capture;

	if (!c)
		return;
	node_list_clear(&s->tips);
	s->capture = NULL;
	c->broken = true;
	if (s != c->origin)
		return; /* cuStreamEndCapture() returns the error */
	graph_end(c->graph);
	end(c);
}

/* Marks all nodes that come after a marked node. Nodes mostly come after older ones, so one pass
 * from the newest on finds nearly all of them. */
static void mark_all(const struct graph *g)
{
	bool more = true;
	uint32_t i, k;

	while (more) {
		more = false;
		for (i = g->n; i-- > 0;) {
			const struct node_list *after = &g->nodes[i]->after;

			for (k = 0; k < after->n && g->nodes[i]->mark; k++) {
				more |= !after->nodes[k]->mark;
				after->nodes[k]->mark = 1;
			}
		}
	}
}

/* Returns whether the first stream's last nodes come after all nodes of other streams. */
static bool is_joined(const struct capture *c)
{
	struct stream *s;
	uint32_t i, at;

	for (i = 0; i < c->graph->n; i++)
		c->graph->nodes[i]->mark = 0;
	for (i = 0; i < c->origin->tips.n; i++)
		c->origin->tips.nodes[i]->mark = 1;
	mark_all(c->graph);
	for (at = 0; (s = handle_next(HANDLE_STREAM, &at));)
		for (i = 0; s->capture == c && i < s->tips.n; i++)
			if (!s->tips.nodes[i]->mark)
				return false;
	return true;
}

static CUresult begin_capture(CUstream h, int wanted)
{
	struct stream *s;
	CUresult e = work_begin(h, &s);

	if (e != CUDA_SUCCESS)
		return e;
	if (wanted < 0 || wanted >= MODES)
		return CUDA_ERROR_INVALID_VALUE;
	if (!s->handle)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* a default stream */
	if (s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	s->capture = calloc(1, sizeof(*s->capture));
	if (!s->capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->capture->graph = graph_make();
	if (!s->capture->graph) {
		free(s->capture);
		s->capture = NULL;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	s->capture->graph->captured = true;
	s->capture->origin = s;
	s->capture->id = ++n_captures;
	return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream h, int wanted)
{
	return CALL_END(begin_capture(h, wanted));
}

CUresult cuStreamBeginCapture(CUstream h)
{
	return CALL_END(begin_capture(h, MODE_GLOBAL));
}

static CUresult end_capture(CUstream h, CUgraph *out)
{
	struct capture *c;
	struct stream *s;
	CUresult e = work_begin(h, &s);

	if (e != CUDA_SUCCESS)
		return e;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	c = s->capture;
	if (!c)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (c->origin != s) {
		c->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (c->broken)
		e = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!is_joined(c))
		e = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	c->graph->captured = false;
	if (e == CUDA_SUCCESS)
		*out = c->graph->handle;
	else
		graph_end(c->graph);
	end(c);
	return e;
}

CUresult cuStreamEndCapture(CUstream h, CUgraph *out)
{
	return CALL_END(end_capture(h, out));
}

static int status_of(const struct stream *s)
{
	if (!s->capture)
		return STATUS_NONE;
	return s->capture->broken ? STATUS_BROKEN : STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream h, int *status)
{
	struct stream *s;
	CUresult e = work_begin(h, &s);

	if (e == CUDA_SUCCESS && !status)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS)
		*status = status_of(s);
	return CALL_END(e);
}

/* Writes the handles of the nodes after which the next node comes to *OUT. They are valid until the
 * next such query, or until the capture ends. */
static CUresult tell_tips(const struct stream *s, const CUgraphNode **out, size_t *n)
{
	CUgraphNode *more = realloc(s->capture->handles, (s->tips.n + 1) * sizeof(CUgraphNode));
	uint32_t i;

	if (!more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->capture->handles = more;
	for (i = 0; i < s->tips.n; i++)
		more[i] = s->tips.nodes[i]->handle;
	if (out)
		*out = more;
	if (n)
		*n = s->tips.n;
	return CUDA_SUCCESS;
}

static CUresult get_info(CUstream h, int *status, uint64_t *id, CUgraph *graph,
			 const CUgraphNode **tips, size_t *n)
{
	struct stream *s;
	CUresult e = work_begin(h, &s);

	if (e == CUDA_SUCCESS && !status)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e != CUDA_SUCCESS)
		return e;
	*status = status_of(s);
	if (*status != STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (id)
		*id = s->capture->id;
	if (graph)
		*graph = s->capture->graph->handle;
	return tips || n ? tell_tips(s, tips, n) : CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo(CUstream h, int *status, uint64_t *id)
{
	return CALL_END(get_info(h, status, id, NULL, NULL, NULL));
}

CUresult cuStreamGetCaptureInfo_v2(CUstream h, int *status, uint64_t *id, CUgraph *graph,
				   const CUgraphNode **tips, size_t *n)
{
	return CALL_END(get_info(h, status, id, graph, tips, n));
}

/* Returns no edge data, because edges have none here. */
CUresult cuStreamGetCaptureInfo_v3(CUstream h, int *status, uint64_t *id, CUgraph *graph,
				   const CUgraphNode **tips, const struct cuda_edge **data,
				   size_t *n)
{
	if (data)
		*data = NULL;
	return CALL_END(get_info(h, status, id, graph, tips, n));
}

/* FLAGS: 0 adds NODES to the nodes after which the next node comes, 1 replaces them. */
static CUresult update_tips(CUstream h, const CUgraphNode *nodes, size_t n, unsigned flags)
{
	struct node *node;
	struct stream *s;
	CUresult e = work_begin(h, &s);
	size_t i;

	if (e == CUDA_SUCCESS && (flags > 1 || (n && !nodes)))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && status_of(s) != STATUS_ACTIVE)
		e = CUDA_ERROR_ILLEGAL_STATE;
	for (i = 0; i < n && e == CUDA_SUCCESS; i++) {
		node = handle_find(HANDLE_NODE, nodes[i]);
		if (!node || node->graph != s->capture->graph)
			e = CUDA_ERROR_INVALID_VALUE;
	}
	if (e == CUDA_SUCCESS && flags)
		node_list_clear(&s->tips);
	for (i = 0; i < n && e == CUDA_SUCCESS; i++)
		if (!node_list_add(&s->tips, handle_find(HANDLE_NODE, nodes[i])))
			e = CUDA_ERROR_OUT_OF_MEMORY;
	return e;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream h, CUgraphNode *nodes, size_t n, unsigned flags)
{
	return CALL_END(update_tips(h, nodes, n, flags));
}

/* Edge data that is not 0 is not supported. */
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream h, CUgraphNode *nodes,
					      const struct cuda_edge *data, size_t n,
					      unsigned flags)
{
	if (data)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CALL_END(update_tips(h, nodes, n, flags));
}

CUresult cuThreadExchangeStreamCaptureMode(int *wanted)
{
	int old = mode;

	if (!wanted || *wanted < 0 || *wanted >= MODES)
		return CUDA_ERROR_INVALID_VALUE;
	mode = *wanted;
	*wanted = old;
	return CUDA_SUCCESS;
}
