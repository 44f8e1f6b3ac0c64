/* SPDX-License-Identifier: MIT */
/* Reads a text outside of bodies, and its entries. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ptx_private.h"

/* Skips to the end of a statement or a body, and marks the names in it as used. */
static void skip(struct ptx *p)
{
	struct symbol *s;
	uint32_t depth = 0;

	do {
		ptx_next(p);
		if (ptx_is(p, ".pragma")) {
			while (!ptx_is(p, ";"))
				ptx_next(p);
			ptx_next(p);
		}
		depth += ptx_is(p, "{");
		depth -= ptx_is(p, "}");
		s = p->declares ? ptx_find(p, p->token) : NULL;
		if (s)
			s->used = true;
	} while (depth > 0 || !(ptx_is(p, ";") || ptx_is(p, "}")));
}

/* Skips a line that is for debuggers. */
static void line(struct ptx *p)
{
	p->at += strcspn(p->at, "\n");
}

static void parameters(struct ptx *p)
{
	struct variable v;
	uint32_t at;

	while (ptx_more(p) && *p->at != ')') {
		ptx_want(p, ".param");
		v = ptx_declaration(p);
		ptx_variable(p, &v);
		if (p->n_params == MAX_PARAMS)
			ptx_stop(p, "too many parameters");
		at = ptx_place(p, &p->params_end, &v);
		p->params[p->n_params++] = (struct place){at, v.size};
		ptx_add(p, v.name, PARAM, at);
		if (ptx_more(p) && *p->at == ',')
			ptx_next(p);
	}
	ptx_next(p);
}

/* Reads the numbers behind .maxntid or .reqntid, whose product is the most threads of a block. */
static void threads(struct ptx *p)
{
	enum literal literal;
	uint64_t n = 1;

	do {
		ptx_next(p);
		n *= ptx_number(p, &literal);
		ptx_next(p);
	} while (ptx_is(p, ","));
	p->most_threads = n > 0 && n < 1024 ? (uint32_t)n : 1024;
}

static void entry_body(struct ptx *p, const struct symbol *e)
{
	p->at = p->begin = (const char *)(uintptr_t)e->value;
	p->file = e->file;
	p->bottom = p->scope = 1;
	ptx_next(p);
	if (ptx_more(p) && *p->at == '(') {
		ptx_next(p);
		parameters(p);
	}
	while (!ptx_is(p, "{")) {
		if (ptx_is(p, ".explicitcluster") || ptx_is(p, ".reqnctapercluster"))
			ptx_stop(p, "clusters are not executed");
		if (ptx_is(p, ".maxntid") || ptx_is(p, ".reqntid"))
			threads(p);
		else
			ptx_next(p);
	}
	ptx_block(p);
}

/* The last steps after all code has been read. */
static void end_body(struct ptx *p)
{
	ptx_all_resolved(p, 0);
	p->code = realloc(p->code, (p->n_code + 1) * sizeof(p->code[0]));
	p->code[p->n_code] =
		(struct instruction){.op = OP_RET, .width = 1}; /* it may end without */
	p->n_code++;
	ptx_give_back(p, 0, 0);
	p->n_registers = p->most_registers;
	p->local = p->most_local + (p->allocas ? ALLOCA_MOST : 0);
}

/* An entry or a function, whose body is read when it is needed. Its name follows its results. */
static void routine(struct ptx *p, enum kind kind)
{
	const char *at = p->at;
	char name[PTX_NAME];

	while (*ptx_next(p) == '.') /* .noreturn, .attribute */
		at = p->at;
	if (ptx_is(p, "(")) {
		while (!ptx_is(p, ")"))
			ptx_next(p);
		ptx_next(p);
	}
	snprintf(name, sizeof(name), "%s", p->token);
	skip(p);
	if (ptx_is(p, ";"))
		ptx_declare(p, name);
	else
		ptx_define(p, name, kind, (uintptr_t)at, 0);
}

static void entry(struct ptx *p)
{
	routine(p, ENTRY);
}

static void function(struct ptx *p)
{
	routine(p, FUNCTION);
}

static void value(struct ptx *p)
{
	ptx_next(p);
	while (ptx_more(p) && *p->at == ',') { /* .target has several */
		ptx_next(p);
		ptx_next(p);
	}
}

static void version(struct ptx *p)
{
	ptx_next(p);
	p->file++;
}

static void texture(struct ptx *p)
{
	ptx_stop(p, "textures, samplers and surfaces are not executed");
}

/* Reads all that is outside of bodies. */
static void module(struct ptx *p)
{
	static const struct {
		const char *word;
		void (*read)(struct ptx *p); /* NULL: the word says who knows the next name */
		enum linkage linkage;
	} words[] = {
		{".const", ptx_global_variable, OWN},
		{".global", ptx_global_variable, OWN},
		{".shared", ptx_shared_variable, OWN},
		{".func", function, OWN},
		{".entry", entry, OWN},
		{".version", version, OWN},
		{".target", value, OWN},
		{".address_size", value, OWN},
		{".visible", NULL, VISIBLE},
		{".extern", NULL, EXTERN},
		{".common", NULL, WEAK},
		{".weak", NULL, WEAK},
		{".file", line, OWN},
		{".section", skip, OWN},
		{"@", line, OWN},
		{".tex", texture, OWN},
		{".texref", texture, OWN},
		{".samplerref", texture, OWN},
		{".surfref", texture, OWN},
	};
	size_t i;

	while (ptx_more(p)) {
		p->begin = p->at;
		ptx_next(p);
		for (i = 0; i < sizeof(words) / sizeof(words[0]) && !ptx_is(p, words[i].word); i++)
			;
		if (p->file == 0 && !ptx_is(p, ".version"))
			ptx_stop(p, "this is no PTX");
		if (i == sizeof(words) / sizeof(words[0]))
			ptx_stop(p, "an unknown directive");
		if (words[i].read)
			words[i].read(p);
		p->linkage = words[i].linkage;
	}
	if (!p->borrows)
		ptx_write_later(p);
}

static struct symbol *find_entry(struct ptx *p, const char *name)
{
	uint32_t i;

	for (i = 0; i < p->n_symbols; i++)
		if (p->symbols[i].kind == ENTRY && strcmp(p->symbols[i].name, name) == 0)
			return &p->symbols[i];
	p->begin = "";
	p->text = p->at = p->begin;
	ptx_stop(p, "no such entry");
}

static void read_entry(struct ptx *p, const char *name)
{
	const struct symbol e = *find_entry(p, name);

	entry_body(p, &e);
	end_body(p);
	ptx_prepare(p);
}

/* Reads what a text has outside of bodies, and the entry NAME. */
static bool reads_text(struct ptx *p, const char *name)
{
	if (setjmp(p->given_up))
		return false;
	module(p);
	if (name)
		read_entry(p, name);
	return true;
}

/* Returns P; if an error ended its reading, frees P and returns NULL. */
static struct ptx *finished(struct ptx *p, bool good)
{
	p->reads = false;
	if (good)
		return p;
	ptx_free(p);
	return NULL;
}

/* All variables are placed: gives back the rest of what was reserved for them. Programs have
 * hundreds of modules. */
static void trim_globals(struct ptx *p)
{
	uint32_t keep = (p->n_globals | 1) + GLOBALS_PAGE - 1;

	keep -= keep % GLOBALS_PAGE;
	if (keep < p->has_globals && munmap(p->globals + keep, p->has_globals - keep) == 0)
		p->has_globals = keep;
}

struct ptx *ptx_read(const char *text, const char *name)
{
	struct ptx *p = calloc(1, sizeof(*p));

	p->text = p->at = text;
	p->reads = true;
	p->globals = mmap(NULL, MAX_GLOBALS, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->globals == MAP_FAILED)
		abort();
	p->has_globals = MAX_GLOBALS;
	p = finished(p, reads_text(p, name));
	if (p)
		trim_globals(p);
	return p;
}

/* Makes a copy of MODULE's names, in which a body can be read. */
static struct ptx *within(const struct ptx *module)
{
	struct ptx *p = malloc(sizeof(*p));

	*p = *module;
	p->chunks = NULL;
	p->borrows = p->reads = true;
	p->has_symbols = p->n_symbols;
	p->symbols = malloc((p->n_symbols + 1) * sizeof(p->symbols[0]));
	memcpy(p->symbols, module->symbols, p->n_symbols * sizeof(p->symbols[0]));
	return p;
}

static bool reads_entry(struct ptx *p, const char *name)
{
	if (setjmp(p->given_up))
		return false;
	read_entry(p, name);
	return true;
}

struct ptx *ptx_read_in(const struct ptx *module, const char *name)
{
	struct ptx *p = within(module);

	return finished(p, reads_entry(p, name));
}

static bool reads_body(struct ptx *p, const struct symbol *s)
{
	if (setjmp(p->given_up))
		return false;
	if (s->kind == ENTRY)
		entry_body(p, s);
	else
		ptx_alone(p, s);
	end_body(p);
	return true;
}

/* Reads the body of name I of MODULE. */
static bool reads(const struct ptx *module, uint32_t i, bool part)
{
	struct ptx *p = within(module);
	bool good;

	p->part = part;
	good = reads_body(p, &p->symbols[i]);
	ptx_free(p);
	return good;
}

bool ptx_check(const struct ptx *module, bool part)
{
	uint32_t i;

	for (i = 0; i < module->n_symbols; i++) {
		const enum kind kind = module->symbols[i].kind;

		if ((kind == ENTRY || kind == FUNCTION) && !reads(module, i, part))
			return false;
	}
	return true;
}

const char *ptx_entry(const struct ptx *module, uint32_t i)
{
	uint32_t k;

	for (k = 0; k < module->n_symbols; k++)
		if (module->symbols[k].kind == ENTRY && i-- == 0)
			return module->symbols[k].name;
	return NULL;
}

bool ptx_param(const struct ptx *p, uint32_t i, uint32_t *at, uint32_t *size)
{
	if (i >= p->n_params)
		return false;
	*at = p->params[i].at;
	*size = p->params[i].size;
	return true;
}

uint32_t ptx_most_threads(const struct ptx *p)
{
	return p->most_threads ? p->most_threads : 1024;
}

uint32_t ptx_shared(const struct ptx *p)
{
	return p->shared;
}

uint32_t ptx_local(const struct ptx *p)
{
	return p->local;
}

uint32_t ptx_globals(const struct ptx *p)
{
	return p->n_globals;
}
