/* SPDX-License-Identifier: MIT */
/*
 * The names of a text that is being read, and queries about them. A text may consist of
 * several files, each of which begins with its .version. A name without .visible or its like
 * belongs to its file; all others belong to the whole text.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ptx_private.h"

#define CHUNK 65536u

struct chunk {
	struct chunk *next;
	size_t used;
	char bytes[];
};

void *ptx_keep(struct ptx *p, size_t n)
{
	const size_t wants = (n + 7) / 8 * 8, size = wants > CHUNK ? wants : CHUNK;
	struct chunk *c = p->chunks;

	if (!c || c->used + wants > CHUNK) {
		c = malloc(sizeof(*c) + size);
		*c = (struct chunk){.next = p->chunks};
		p->chunks = c;
	}
	c->used += wants;
	return c->bytes + c->used - wants;
}

static uint32_t *bucket(struct ptx *p, const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 16777619u;
	return &p->buckets[hash % BUCKETS];
}

static void assign(struct ptx *p, struct symbol *s, enum kind kind, uint64_t value)
{
	s->kind = kind;
	s->value = value;
	s->linkage = p->linkage;
	s->scope = p->scope;
	s->file = p->file;
}

struct symbol *ptx_add(struct ptx *p, const char *name, enum kind kind, uint64_t value)
{
	const size_t n = strlen(name) + 1;
	uint32_t *head = bucket(p, name);
	struct symbol *s;

	if (p->n_symbols == p->has_symbols) {
		p->has_symbols = p->has_symbols * 2 + 64;
		p->symbols = realloc(p->symbols, p->has_symbols * sizeof(p->symbols[0]));
	}
	s = &p->symbols[p->n_symbols++];
	*s = (struct symbol){.name = memcpy(ptx_keep(p, n), name, n), .next = *head};
	*head = p->n_symbols;
	assign(p, s, kind, value);
	return s;
}

/* Later names of a body hide earlier ones, and all those of the text; a file's own name hides
 * another file's. */
struct symbol *ptx_find(struct ptx *p, const char *name)
{
	struct symbol *of_another = NULL;
	uint32_t i;

	for (i = *bucket(p, name); i > 0; i = p->symbols[i - 1].next) {
		struct symbol *s = &p->symbols[i - 1];

		if (s->over || (s->scope && s->scope < p->bottom) || strcmp(s->name, name) != 0)
			continue;
		if (s->scope || s->file == p->file)
			return s;
		if (s->linkage != OWN)
			of_another = s;
	}
	return of_another;
}

void ptx_forget(struct ptx *p, uint32_t n)
{
	while (p->n_symbols > n) {
		const struct symbol *s = &p->symbols[--p->n_symbols];

		*bucket(p, s->name) = s->next;
	}
}

void ptx_define(struct ptx *p, const char *name, enum kind kind, uint64_t value, uint32_t bytes)
{
	struct symbol *s = ptx_find(p, name);

	if (!s || (s->file != p->file && p->linkage == OWN))
		s = ptx_add(p, name, kind, value);
	else if (s->kind == MISSING || (s->linkage == WEAK && p->linkage != WEAK))
		assign(p, s, kind, value);
	else if (p->linkage != WEAK)
		s->twice = true;
	else
		return;
	s->bytes = bytes;
}

void ptx_declare(struct ptx *p, const char *name)
{
	if (ptx_find(p, name))
		return;
	ptx_add(p, name, MISSING, 0);
	p->declares = true;
}

void ptx_close_scope(struct ptx *p)
{
	uint32_t i;

	for (i = p->n_symbols; i > 0 && p->symbols[i - 1].scope >= p->scope; i--)
		p->symbols[i - 1].over = true;
	p->scope--;
}

bool ptx_is_given(const char *name)
{
	static const char *const given[] = {"vprintf", "malloc", "free", "__assertfail"};
	uint32_t k;

	for (k = 0; k < sizeof(given) / sizeof(given[0]); k++)
		if (strcmp(name, given[k]) == 0)
			return true;
	return false;
}

const char *ptx_missing(const struct ptx *p)
{
	uint32_t i;

	for (i = 0; i < p->n_symbols; i++)
		if (p->symbols[i].kind == MISSING && p->symbols[i].used &&
		    !ptx_is_given(p->symbols[i].name))
			return p->symbols[i].name;
	return NULL;
}

const char *ptx_twice(const struct ptx *p)
{
	uint32_t i;

	for (i = 0; i < p->n_symbols; i++)
		if (p->symbols[i].twice)
			return p->symbols[i].name;
	return NULL;
}

bool ptx_global(const struct ptx *p, const char *name, void **at, size_t *bytes)
{
	uint32_t i;

	for (i = 0; i < p->n_symbols; i++)
		if (p->symbols[i].bytes && strcmp(p->symbols[i].name, name) == 0) {
			*at = (void *)(uintptr_t)p->symbols[i].value;
			*bytes = p->symbols[i].bytes;
			return true;
		}
	return false;
}

void ptx_free(struct ptx *p)
{
	struct chunk *c;

	while ((c = p->chunks)) {
		p->chunks = c->next;
		free(c);
	}
	if (!p->borrows)
		munmap(p->globals, p->has_globals);
	free(p->code);
	free(p->quick);
	free(p->constants);
	free(p->symbols);
	free(p);
}
