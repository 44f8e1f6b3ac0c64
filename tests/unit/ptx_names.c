/* SPDX-License-Identifier: MIT */
/*
 * The names of a text that is being read, and what of it others may ask. A text may consist of
 * several files, each of which begins with its .version. A name without .visible or its like
 * belongs to its file; all others belong to the whole text.
 */
#include <stdio.h>
#include <string.h>

#include "ptx_private.h"

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
	struct symbol *s = &p->symbols[p->n_symbols++];

	if (p->n_symbols == MAX_SYMBOLS)
		ptx_stop(p, "too many names");
	memset(s, 0, sizeof(*s));
	assign(p, s, kind, value);
	snprintf(s->name, sizeof(s->name), "%s", name);
	return s;
}

/* Later names of a body hide earlier ones, and all those of the text; a file's own name hides
 * another file's. */
struct symbol *ptx_find(struct ptx *p, const char *name)
{
	struct symbol *of_another = NULL;
	uint32_t i;

	for (i = p->n_symbols; i-- > 0;) {
		struct symbol *s = &p->symbols[i];

		if ((s->scope && s->scope < p->bottom) || strcmp(s->name, name) != 0)
			continue;
		if (s->scope || s->file == p->file)
			return s;
		if (s->linkage != OWN)
			of_another = s;
	}
	return of_another;
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
	uint32_t i, n = 0;

	for (i = 0; i < p->n_symbols; i++) {
		if (p->symbols[i].scope == p->scope && p->symbols[i].kind != LABEL)
			continue;
		if (n != i)
			p->symbols[n] = p->symbols[i];
		n++;
	}
	p->n_symbols = n;
	p->scope--;
}

const char *ptx_missing(const struct ptx *p)
{
	/* NVIDIA's driver has these. */
	static const char *const given[] = {"vprintf", "malloc", "free", "__assertfail"};
	uint32_t i, k;

	for (i = 0; i < p->n_symbols; i++) {
		if (p->symbols[i].kind != MISSING || !p->symbols[i].used)
			continue;
		for (k = 0; k < sizeof(given) / sizeof(given[0]); k++)
			if (strcmp(p->symbols[i].name, given[k]) == 0)
				break;
		if (k == sizeof(given) / sizeof(given[0]))
			return p->symbols[i].name;
	}
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
