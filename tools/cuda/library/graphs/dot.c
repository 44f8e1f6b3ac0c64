/* SPDX-License-Identifier: MIT */
/* Writes a graph as text for Graphviz. The file is written without the lock, because it may be a
 * pipe. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_calls.h"
#include "graph.h"

/* CUgraphDebugDot_flags: what the text has besides nodes and edges. The text uses its own field
 * names, so CUDA's flag for the runtime's names has no effect. */
#define VERBOSE 0x1u
#define KERNEL_PARAMS 0x4u
#define COPY_PARAMS 0x8u
#define SET_PARAMS 0x10u
#define HOST_PARAMS 0x20u
#define EVENT_PARAMS 0x40u
#define KERNEL_ATTRIBUTES 0x200u
#define HANDLES 0x400u
#define EDGE_NUMBERS 0x4000u
#define ALL_FLAGS 0xffffu

struct dot {
	FILE *out;
	unsigned flags;
	uint32_t n; /* number of graphs so far */
};

static bool has(const struct dot *d, unsigned flag)
{
	return d->flags & (flag | VERBOSE);
}

/* Adds a line to a node's label. */
__attribute__((format(printf, 2, 3))) static void line(FILE *out, const char *format, ...)
{
	va_list list;

	fputs("\\n", out);
	va_start(list, format);
	vfprintf(out, format, list);
	va_end(list);
}

static void kernel_name(FILE *out, const struct work *w)
{
	const struct function *f = handle_find(HANDLE_FUNCTION, w->launch.function);

	line(out, "%s", f ? f->known.name : "its module is unloaded");
}

/* Writes an argument; one that has the size of a number is written as a number. */
static void argument(FILE *out, const uint8_t *at, uint32_t bytes)
{
	uint64_t value = 0;

	if (bytes > sizeof(value)) {
		line(out, "%" PRIu32 " bytes", bytes);
		return;
	}
	memcpy(&value, at, bytes);
	line(out, "%#" PRIx64, value);
}

static void kernel_params(FILE *out, const struct work *w)
{
	const struct work_launch *l = &w->launch;
	const struct function *f = handle_find(HANDLE_FUNCTION, l->function);
	uint32_t i;

	line(out, "grid %ux%ux%u", l->grid[0], l->grid[1], l->grid[2]);
	line(out, "block %ux%ux%u", l->block[0], l->block[1], l->block[2]);
	line(out, "shared %u", l->shared);
	for (i = 0; f && i < f->known.n_params; i++)
		argument(out, l->args + f->known.offset[i], f->known.size[i]);
}

static void direction(FILE *out, const struct work *w)
{
	static const char *const names[] = {"device", "host"};

	line(out, "%s to %s", names[w->copy.from.host], names[w->copy.to.host]);
}

static void side(FILE *out, const char *name, const struct cuda_copy_side_3d *s)
{
	line(out, "%s type %u, host %p, device %#" PRIx64, name, s->type, s->host, s->device);
	line(out, "%s x %zu, y %zu, z %zu, pitch %zu, height %zu", name, s->x, s->y, s->z, s->pitch,
	     s->height);
}

static void copy_params(FILE *out, const struct work *w)
{
	const struct cuda_copy_3d c = copies_said(&w->copy);

	side(out, "from", &c.from);
	side(out, "to", &c.to);
	line(out, "width %zu, rows %zu, layers %zu", c.width, c.rows, c.layers);
}

static void set_params(FILE *out, const struct work *w)
{
	const struct work_set *s = &w->set;

	line(out, "at %#" PRIx64 ", pitch %" PRIu64, s->at, s->pitch);
	line(out, "value %#" PRIx64 " of %" PRIu32 " bytes", s->value, s->unit);
	line(out, "width %" PRIu64 ", rows %" PRIu64, s->width, s->rows);
}

static void host_params(FILE *out, const struct work *w)
{
	line(out, "function %p, data %p", (void *)(uintptr_t)w->host.run, w->host.data);
}

static void event_params(FILE *out, const struct work *w)
{
	line(out, "event %p", w->event);
}

static const struct {
	const char *name;
	void (*brief)(FILE *out, const struct work *w);
	unsigned flag; /* flag that adds the lines of this row */
	void (*params)(FILE *out, const struct work *w);
} kinds[] = {
	[NODE_KERNEL] = {"KERNEL", kernel_name, KERNEL_PARAMS, kernel_params},
	[NODE_COPY] = {"MEMCPY", direction, COPY_PARAMS, copy_params},
	[NODE_SET] = {"MEMSET", NULL, SET_PARAMS, set_params},
	[NODE_HOST] = {"HOST", NULL, HOST_PARAMS, host_params},
	[NODE_GRAPH] = {"GRAPH", NULL, 0, NULL},
	[NODE_EMPTY] = {"EMPTY", NULL, 0, NULL},
	[NODE_WAIT] = {"EVENT_WAIT", NULL, EVENT_PARAMS, event_params},
	[NODE_RECORD] = {"EVENT_RECORD", NULL, EVENT_PARAMS, event_params},
};

static void label(const struct dot *d, const struct node *node)
{
	const struct work *w = &node->work;
	const bool is_kernel = node->type == NODE_KERNEL;

	fprintf(d->out, "%" PRIu32 "\\n%s", node->mark, kinds[node->type].name);
	if (kinds[node->type].brief)
		kinds[node->type].brief(d->out, w);
	if (kinds[node->type].params && has(d, kinds[node->type].flag))
		kinds[node->type].params(d->out, w);
	if (is_kernel && has(d, KERNEL_ATTRIBUTES))
		line(d->out, "cooperative %d", w->launch.together);
	if (has(d, HANDLES))
		line(d->out, "node %p", node->handle);
	if (is_kernel && has(d, HANDLES))
		line(d->out, "function %p", w->launch.function);
}

static void edges(const struct dot *d, const struct node *node, uint32_t graph)
{
	uint32_t i;

	for (i = 0; i < node->after.n; i++) {
		fprintf(d->out, "\"graph_%u_node_%u\" -> \"graph_%u_node_%u\"", graph,
			node->after.nodes[i]->mark, graph, node->mark);
		if (has(d, EDGE_NUMBERS))
			fprintf(d->out, "[label=\"%u\"]", i);
		fputs(";\n", d->out);
	}
}

/* Writes G as a cluster. A child is a cluster inside its parent's, with an edge to it. Uses the
 * nodes' marks for their numbers. */
static void describe(struct dot *d, const struct graph *g)
{
	const uint32_t number = d->n++;
	uint32_t i;

	fprintf(d->out, "subgraph cluster_%u {\nlabel=\"graph_%u\" graph[style=\"dashed\"];\n",
		number, number);
	for (i = 0; i < g->n; i++)
		g->nodes[i]->mark = i;
	for (i = 0; i < g->n; i++) {
		const struct node *node = g->nodes[i];

		fprintf(d->out, "\"graph_%u_node_%u\"[shape=\"box\" label=\"", number, i);
		label(d, node);
		fputs("\"];\n", d->out);
		if (node->child && node->child->n)
			fprintf(d->out,
				"\"graph_%u_node_%u\" -> \"graph_%u_node_0\"[style=\"dotted\"];\n",
				number, i, d->n);
		if (node->child)
			describe(d, node->child);
		edges(d, node, number);
	}
	fputs("}\n", d->out);
}

/* Writes the graph's text to *TEXT, which the caller frees. */
static CUresult make_text(CUgraph h, bool ok, unsigned flags, char **text)
{
	CUresult e = call_begin(NEEDS_DEVICE, NULL);
	const struct graph *g = handle_find(HANDLE_GRAPH, h);
	struct dot d = {.flags = flags};
	size_t size;

	if (e == CUDA_SUCCESS && (!g || !ok))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e != CUDA_SUCCESS)
		return e;
	d.out = open_memstream(text, &size);
	if (!d.out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fputs("digraph dot {\n", d.out);
	describe(&d, g);
	fputs("}\n", d.out);
	return fclose(d.out) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Writes the text to the file. Returns 0 or an errno. */
static int write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	int error = f ? 0 : errno;

	if (f && fputs(text, f) == EOF)
		error = errno;
	if (f && fclose(f) != 0)
		error = errno;
	return error;
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags)
{
	char *text = NULL;
	CUresult e = CALL_END(make_text(graph, path && !(flags & ~ALL_FLAGS), flags, &text));
	int error = e == CUDA_SUCCESS ? write_file(path, text) : 0;

	free(text);
	if (error)
		log_line("cuGraphDebugDotPrint: %s: %s", path, strerror(error));
	return error ? CUDA_ERROR_OPERATING_SYSTEM : e;
}
