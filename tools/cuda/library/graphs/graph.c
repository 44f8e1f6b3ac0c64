/* SPDX-License-Identifier: MIT */
#include "graph.h"

#include <stdlib.h>

static bool keep_copy(struct work_copy *w)
{
	struct cuda_copy_3d *said = w->said ? malloc(sizeof(*said)) : NULL;
	const bool ok = said || !w->said;

	if (said)
		*said = *w->said;
	w->said = said;
	return ok;
}

bool graph_work_copy(struct work *to, const struct work *w)
{
	*to = *w;
	if (w->kind == WORK_COPY)
		return keep_copy(&to->copy);
	return w->kind != WORK_LAUNCH || launch_keep(&to->launch);
}

void graph_work_end(struct work *w)
{
	if (w->kind == WORK_LAUNCH)
		free(w->launch.args);
	if (w->kind == WORK_COPY)
		free((void *)(uintptr_t)w->copy.said);
	w->kind = WORK_NOTHING;
}

CUresult graph_work_replace(struct work *to, const struct work *w)
{
	struct work made;
	CUresult e = work_check(w);

	if (e != CUDA_SUCCESS)
		return e;
	/* copy first, because W may point to arguments of TO, which then ends */
	if (!graph_work_copy(&made, w))
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* an attribute of the node that its parameters do not have */
	if (w->kind == WORK_LAUNCH)
		made.launch.together = to->launch.together;
	graph_work_end(to);
	*to = made;
	return CUDA_SUCCESS;
}

struct graph *graph_make(void)
{
	struct graph *g = calloc(1, sizeof(*g));

	if (g)
		g->handle = handle_make(HANDLE_GRAPH, g);
	if (g && g->handle)
		return g;
	free(g);
	return NULL;
}

static void end_node(struct node *node)
{
	handle_drop(HANDLE_NODE, node->handle);
	graph_work_end(&node->work);
	free(node->list);
	node_list_clear(&node->after);
	if (node->child)
		graph_end(node->child);
	free(node);
}

void graph_end(struct graph *g)
{
	uint32_t i;

	for (i = 0; i < g->n; i++)
		end_node(g->nodes[i]);
	handle_drop(HANDLE_GRAPH, g->handle);
	user_objects_end(&g->objects);
	free(g->nodes);
	free(g);
}

void graph_remove(struct node *node)
{
	struct graph *g = node->graph;
	uint32_t i, kept = 0;

	for (i = 0; i < g->n; i++) {
		node_list_drop(&g->nodes[i]->after, node);
		if (g->nodes[i] != node)
			g->nodes[kept++] = g->nodes[i];
	}
	g->n = kept;
	end_node(node);
}

struct node *graph_add(struct graph *g, enum node_type type, const struct work *work,
		       struct node *const *after, uint32_t n)
{
	struct node *node = calloc(1, sizeof(*node)), **more;
	bool ok;
	uint32_t i;

	if (!node)
		return NULL;
	node->graph = g;
	node->type = type;
	node->handle = handle_make(HANDLE_NODE, node);
	ok = node->handle && graph_work_copy(&node->work, work);
	if (!ok)
		node->work.kind = WORK_NOTHING;
	for (i = 0; i < n && ok; i++)
		ok = node_list_add(&node->after, after[i]);
	more = ok ? realloc(g->nodes, (g->n + 1) * sizeof(struct node *)) : NULL;
	if (!more) {
		end_node(node);
		return NULL;
	}
	g->nodes = more;
	g->nodes[g->n++] = node;
	return node;
}

/* Copies a node without its edges. */
static struct node *copy_node(struct graph *to, const struct node *node)
{
	struct node *made = graph_add(to, node->type, &node->work, NULL, 0);

	if (!made)
		return NULL;
	made->origin = node->handle;
	made->child = node->child ? graph_clone(node->child) : NULL;
	if (made->child)
		made->child->owned = true;
	return node->child && !made->child ? NULL : made;
}

struct graph *graph_clone(const struct graph *g)
{
	struct graph *to = graph_make();
	bool ok = to && user_objects_keep(&to->objects, &g->objects, false);
	uint32_t i, k;

	for (i = 0; i < g->n && ok; i++) {
		g->nodes[i]->mark = i;
		ok = copy_node(to, g->nodes[i]);
	}
	for (i = 0; i < g->n && ok; i++)
		for (k = 0; k < g->nodes[i]->after.n && ok; k++)
			ok = node_list_add(&to->nodes[i]->after,
					   to->nodes[g->nodes[i]->after.nodes[k]->mark]);
	if (ok)
		return to;
	if (to)
		graph_end(to);
	return NULL;
}

/* Returns whether A comes after the same nodes in its graph as B does in its own; uses the nodes'
 * marks for their positions. */
static bool comes_after_the_same(const struct node *a, const struct node *b)
{
	uint32_t i, k;

	if (a->after.n != b->after.n)
		return false;
	for (i = 0; i < a->after.n; i++) {
		for (k = 0; k < b->after.n; k++)
			if (b->after.nodes[k]->mark == a->after.nodes[i]->mark)
				break;
		if (k == b->after.n)
			return false;
	}
	return true;
}

bool graph_is_like(const struct graph *a, const struct graph *b)
{
	bool like = a->n == b->n;
	uint32_t i;

	for (i = 0; i < a->n && like; i++)
		a->nodes[i]->mark = b->nodes[i]->mark = i;
	for (i = 0; i < a->n && like; i++) {
		const struct node *x = a->nodes[i], *y = b->nodes[i];

		like = x->type == y->type && comes_after_the_same(x, y) &&
		       (!x->child || graph_is_like(x->child, y->child));
	}
	return like;
}

/* Repeatedly takes the first node that comes after no remaining node. A mark of 1 means that the
 * node was taken. */
bool graph_sort(const struct graph *g, struct node **out)
{
	uint32_t taken = 0, before, i, k;
	bool ready;

	for (i = 0; i < g->n; i++)
		g->nodes[i]->mark = 0;
	do {
		before = taken;
		for (i = 0; i < g->n; i++) {
			struct node *node = g->nodes[i];

			ready = !node->mark;
			for (k = 0; k < node->after.n && ready; k++)
				ready = node->after.nodes[k]->mark;
			if (!ready)
				continue;
			node->mark = 1;
			out[taken++] = node;
		}
	} while (taken > before);
	return taken == g->n;
}
