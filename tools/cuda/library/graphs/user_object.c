/* SPDX-License-Identifier: MIT */
/* Objects of the program that graphs and their instances keep. A function of the program destroys
 * an object when it has no more references and no work that may use it runs. */
#include <limits.h>
#include <stdlib.h>

#include "graph.h"

struct user_object {
	struct call_later later; /* must be the first member */
	void *handle;
	uint64_t own, kept; /* references of the program, and of graphs and instances */
	bool launched;	    /* an instance has had a reference */
	void (*destroy)(void *data);
	void *data;
};

#define NO_DESTRUCTOR_SYNC 1u
#define MOVE 1u

/* Destroys the object. Called without the lock. */
static void destroy(struct call_later *later)
{
	struct user_object *o = (struct user_object *)later;

	o->destroy(o->data);
	free(o);
}

/* If the object has no references, lets it be destroyed at the end of the call, after the end of
 * launched work, which may use it. */
static void end_unused(struct user_object *o)
{
	if (o->own > 0 || o->kept > 0)
		return;
	handle_drop(HANDLE_OBJECT, o->handle);
	if (o->launched)
		link_drain();
	o->later.run = destroy;
	call_later(&o->later);
}

static struct user_reference *find(const struct user_objects *l, const struct user_object *o)
{
	uint32_t i;

	for (i = 0; i < l->n; i++)
		if (l->of[i].object == o)
			return &l->of[i];
	return NULL;
}

/* Adds references to the object. Returns false if out of memory. */
static bool keep(struct user_objects *l, struct user_object *o, uint64_t count)
{
	struct user_reference *r = find(l, o), *more;

	if (!r) {
		more = realloc(l->of, (l->n + 1) * sizeof(*more));
		if (!more)
			return false;
		l->of = more;
		r = &more[l->n++];
		*r = (struct user_reference){o, 0};
	}
	r->count += count;
	o->kept += count;
	return true;
}

bool user_objects_keep(struct user_objects *to, const struct user_objects *from, bool launched)
{
	uint32_t i;

	for (i = 0; i < from->n; i++) {
		if (!keep(to, from->of[i].object, from->of[i].count))
			return false;
		from->of[i].object->launched |= launched;
	}
	return true;
}

void user_objects_end(struct user_objects *l)
{
	uint32_t i;

	for (i = 0; i < l->n; i++) {
		l->of[i].object->kept -= l->of[i].count;
		end_unused(l->of[i].object);
	}
	free(l->of);
	*l = (struct user_objects){NULL, 0};
}

static bool is_count(unsigned count)
{
	return count > 0 && count <= INT_MAX;
}

static CUresult create(CUuserObject *out, void *data, void (*run)(void *), unsigned count,
		       unsigned flags)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);
	struct user_object *o;

	if (e == CUDA_SUCCESS && (!out || !run || !is_count(count) || flags != NO_DESTRUCTOR_SYNC))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e != CUDA_SUCCESS)
		return e;
	o = calloc(1, sizeof(*o));
	if (o)
		o->handle = handle_make(HANDLE_OBJECT, o);
	if (!o || !o->handle) {
		free(o);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	o->own = count;
	o->destroy = run;
	o->data = data;
	*out = o->handle;
	return CUDA_SUCCESS;
}

CUresult cuUserObjectCreate(CUuserObject *out, void *data, void (*run)(void *), unsigned count,
			    unsigned flags)
{
	return CALL_END(create(out, data, run, count, flags));
}

/* Begins a call about COUNT references. */
static CUresult begin_count(CUuserObject h, unsigned count, struct user_object **o)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);

	*o = handle_find(HANDLE_OBJECT, h);
	return e == CUDA_SUCCESS && (!*o || !is_count(count)) ? CUDA_ERROR_INVALID_VALUE : e;
}

CUresult cuUserObjectRetain(CUuserObject h, unsigned count)
{
	struct user_object *o;
	CUresult e = begin_count(h, count, &o);

	if (e == CUDA_SUCCESS)
		o->own += count;
	return CALL_END(e);
}

CUresult cuUserObjectRelease(CUuserObject h, unsigned count)
{
	struct user_object *o;
	CUresult e = begin_count(h, count, &o);

	if (e == CUDA_SUCCESS && count > o->own)
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS) {
		o->own -= count;
		end_unused(o);
	}
	return CALL_END(e);
}

/* The graph gets new references, or the program's. */
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject h, unsigned count, unsigned flags)
{
	struct graph *g;
	struct user_object *o;
	CUresult e = begin_count(h, count, &o);

	g = handle_find(HANDLE_GRAPH, graph);
	if (e == CUDA_SUCCESS && (!g || flags & ~MOVE || (flags && count > o->own)))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e == CUDA_SUCCESS && !keep(&g->objects, o, count))
		e = CUDA_ERROR_OUT_OF_MEMORY;
	if (e == CUDA_SUCCESS && flags)
		o->own -= count;
	return CALL_END(e);
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject h, unsigned count)
{
	struct user_reference *r;
	struct user_object *o;
	struct graph *g;
	CUresult e = begin_count(h, count, &o);

	g = handle_find(HANDLE_GRAPH, graph);
	r = g && o ? find(&g->objects, o) : NULL;
	if (e == CUDA_SUCCESS && (!r || count > r->count))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e != CUDA_SUCCESS)
		return CALL_END(e);
	r->count -= count;
	if (r->count == 0)
		*r = g->objects.of[--g->objects.n];
	o->kept -= count;
	end_unused(o);
	return CALL_END(CUDA_SUCCESS);
}
