/* SPDX-License-Identifier: MIT */
/* Variables: their declarations, where they lie, and the values that they begin with. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_private.h"

/* One that is no more than the bytes of the largest array. */
static uint32_t small_number(struct ptx *p)
{
	enum literal literal;
	uint64_t n = ptx_number(p, &literal);

	if (literal != INTEGER || n > MAX_GLOBALS)
		ptx_stop(p, "too large a number");
	return (uint32_t)n;
}

/* [.align N] [.vN] .TYPE [.ptr [.SPACE] [.align N]] */
struct variable ptx_declaration(struct ptx *p)
{
	struct variable v = {.align = 1, .each = 1};
	uint32_t elements = 1;
	bool pointer = false;

	while (*ptx_next(p) == '.') {
		if (ptx_is(p, ".ptr")) {
			pointer = true;
		} else if (ptx_is(p, ".align")) {
			ptx_next(p);
			v.align = pointer ? v.align : small_number(p);
			if (v.align == 0)
				ptx_stop(p, "no alignment");
		} else if (ptx_is(p, ".v2") || ptx_is(p, ".v4")) {
			elements = (uint32_t)(p->token[2] - '0');
		} else if (ptx_type(p->token + 1, strlen(p->token + 1), &v.type)) {
			v.each = v.type.bits == 1 ? 1 : v.type.bits * v.type.lanes / 8;
		} else if (!pointer) {
			ptx_stop(p, "an unknown kind of variable");
		}
	}
	if (elements * v.each > v.align)
		v.align = elements * v.each;
	v.rows[0] = elements * v.each;
	v.n_rows = elements > 1;
	return v;
}

void ptx_variable(struct ptx *p, struct variable *v)
{
	const uint32_t vector = v->rows[0];
	uint32_t n[3], k = 0, dimensions = 0;
	uint64_t bytes = vector;

	snprintf(v->name, sizeof(v->name), "%s", p->token);
	while (ptx_more(p) && *p->at == '[') {
		if (dimensions == 3)
			ptx_stop(p, "too many dimensions");
		ptx_next(p);
		ptx_next(p);
		n[dimensions++] = ptx_is(p, "]") ? 0 : small_number(p);
		if (!ptx_is(p, "]"))
			ptx_want(p, "]");
	}
	for (k = dimensions; k-- > 0;) {
		v->rows[k + 1] = (uint32_t)bytes;
		bytes *= n[k];
		if (bytes > MAX_GLOBALS)
			ptx_stop(p, "too much memory");
	}
	v->n_rows = dimensions + (vector > v->each);
	v->size = (uint32_t)bytes;
	v->count = v->each ? v->size / v->each : 0;
}

bool ptx_another(struct ptx *p)
{
	if (!ptx_is(p, ","))
		return false;
	ptx_next(p);
	return true;
}

uint32_t ptx_place(struct ptx *p, uint32_t *end, const struct variable *v)
{
	uint64_t at;

	at = ((uint64_t)*end + v->align - 1) / v->align * v->align;
	if (at + v->size > MAX_GLOBALS)
		ptx_stop(p, "too much memory");
	*end = (uint32_t)at + v->size;
	return (uint32_t)at;
}

/* A name, generic(NAME), and what is added to it, as the value at AT of BYTES. */
static void named(struct ptx *p, uint32_t at, uint32_t bytes)
{
	const bool generic = ptx_is(p, "generic");
	enum literal literal;
	struct later *l;
	size_t n;

	if (generic) {
		ptx_want(p, "(");
		ptx_next(p);
	}
	if (bytes != 8)
		ptx_stop(p, "an address of less than 64 bits");
	n = strlen(p->token) + 1;
	l = ptx_keep(p, sizeof(*l) + n);
	*l = (struct later){.next = p->later, .at = at, .file = p->file, .bytes = bytes};
	memcpy(l->name, p->token, n);
	p->later = l;
	if (generic)
		ptx_want(p, ")");
	if (ptx_more(p) && (*p->at == '+' || *p->at == '-')) {
		const bool minus = *p->at == '-';

		ptx_next(p);
		ptx_next(p);
		l->added = ptx_number(p, &literal);
		l->added = minus ? -l->added : l->added;
	}
}

void ptx_write_later(struct ptx *p)
{
	const struct later *l;
	struct symbol *s;
	uint64_t v;

	for (l = p->later; l; l = l->next) {
		p->file = l->file;
		s = ptx_find(p, l->name);
		if (!s || (s->kind != VALUE && s->kind != FUNCTION && s->kind != MISSING &&
			   s->kind != ENTRY))
			ptx_stop(p, "an array begins with a name that is no address");
		s->used = true;
		v = s->value + l->added;
		memcpy(&p->globals[l->at], &v, l->bytes);
	}
	p->later = NULL;
}

/* A number as the bits of the variable's type. */
static uint64_t as_type(struct ptx *p, const struct variable *v)
{
	enum literal literal;
	uint64_t n = ptx_number(p, &literal);
	double d;
	float f;

	if (v->type.kind != 'f' || literal == INTEGER)
		return n;
	if (v->each < 4)
		ptx_stop(p, "a float of 16 bits: write its bits");
	if (literal == DOUBLE && v->each == 4) {
		memcpy(&d, &n, sizeof(d));
		f = (float)d;
		n = 0;
		memcpy(&n, &f, sizeof(f));
	} else if (literal == SINGLE && v->each == 8) {
		memcpy(&f, &n, sizeof(f));
		d = (double)f;
		memcpy(&n, &d, sizeof(d));
	}
	return n;
}

/* The values behind =, in one list, or a list for each row. */
static void values(struct ptx *p, const struct variable *v, uint32_t at)
{
	const uint32_t end = at + v->size;
	uint32_t begins[5], depth = 0;
	uint64_t n;

	do {
		ptx_next(p);
		if (ptx_is(p, "{")) {
			if (depth > v->n_rows)
				ptx_stop(p, "too many braces");
			begins[depth++] = at;
		} else if (ptx_is(p, "}")) {
			depth--;
			if (depth > 0) /* the rest of the row is 0 */
				at = begins[depth] + v->rows[depth];
		} else if (!ptx_is(p, ",")) {
			if (at + v->each > end)
				ptx_stop(p, "too many values");
			if (isdigit((unsigned char)p->token[0]) || ptx_is(p, "-")) {
				n = as_type(p, v);
				if (!p->borrows)
					memcpy(&p->globals[at], &n, v->each);
			} else {
				named(p, at, v->each);
			}
			at += v->each;
		}
	} while (depth > 0);
}

void ptx_global_variable(struct ptx *p)
{
	struct variable v = ptx_declaration(p);
	uint32_t at;

	do {
		ptx_variable(p, &v);
		if (p->linkage == EXTERN) {
			ptx_declare(p, v.name);
			ptx_next(p);
			continue;
		}
		at = ptx_place(p, &p->n_globals, &v);
		ptx_define(p, v.name, VALUE, (uint64_t)(uintptr_t)&p->globals[at], v.size);
		ptx_next(p);
		if (ptx_is(p, "=")) {
			values(p, &v, at);
			ptx_next(p);
		}
	} while (ptx_another(p));
	if (!ptx_is(p, ";"))
		ptx_stop(p, "no ;");
}

void ptx_shared_variable(struct ptx *p)
{
	struct variable v = ptx_declaration(p);

	do {
		ptx_variable(p, &v);
		ptx_add(p, v.name, v.size ? VALUE : DYNAMIC, ptx_place(p, &p->shared, &v))->bits =
			32;
		ptx_next(p);
	} while (ptx_another(p));
	if (!ptx_is(p, ";"))
		ptx_stop(p, "no ;");
}
