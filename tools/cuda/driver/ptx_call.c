/* SPDX-License-Identifier: MIT */
/*
 * Calls. Each call is replaced by a copy of the function's body, so no function can call itself. A
 * call by pointer is replaced by a copy of each function with the same results and parameters; the
 * pointer's value is the place of the function's header in the text.
 */
#include <stdio.h>
#include <string.h>

#include "ptx_private.h"

struct arguments {
	struct {
		struct operand operand;
		uint32_t bytes; /* of a variable that is passed */
	} at[MAX_PARAMS];
	uint32_t n;
};

/* Reads the arguments of a call, after the opening parenthesis. */
static void read_arguments(struct ptx *p, struct arguments *a)
{
	const struct symbol *s;

	for (ptx_next(p); !ptx_is(p, ")"); ptx_next(p)) {
		if (ptx_is(p, ","))
			continue;
		if (a->n == MAX_PARAMS)
			ptx_stop(p, "too many arguments");
		s = ptx_find(p, p->token);
		a->at[a->n].bytes = s && s->kind == LOCAL ? s->bytes : 0;
		a->at[a->n++].operand = ptx_operand(p);
	}
}

/* Makes a register of the function that begins with a copy of an argument. */
static void copied(struct ptx *p, const struct variable *v, const struct operand *from)
{
	const struct type type = ptx_type_of('b', v->type.bits);
	const struct instruction mov = {
		.op = OP_MOV,
		.to = type,
		.type = type,
		.cut = type.mask,
		.operands = {{.kind = REGISTER, .value = p->n_registers, .bits = type.bits}, *from},
		.n = 2,
		.sources = 1,
		.width = 1,
	};

	ptx_register(p, v->name, type.bits);
	ptx_emit(p, &mov);
}

/* Reads a result or a parameter in a function's header: in memory, or a register. */
static bool parameter(struct ptx *p, struct variable *v)
{
	const bool in_memory = strcmp(ptx_next(p), ".param") == 0;

	if (!in_memory && !ptx_is(p, ".reg"))
		ptx_stop(p, "no parameter");
	*v = ptx_declaration(p);
	ptx_variable(p, v);
	return in_memory;
}

/* Reads the declaration of a function's result or parameter, which is argument N of the call; or
 * without a call, its own. Variables and registers for results are the caller's own. */
static void bind(struct ptx *p, const struct arguments *a, uint32_t n, bool result)
{
	const struct operand *o = a ? &a->at[n].operand : NULL;
	struct variable v;
	const bool in_memory = parameter(p, &v);
	bool fits;

	if (!a && in_memory) {
		ptx_add(p, v.name, LOCAL, ptx_place(p, &p->local, &v))->bytes = v.size;
		return;
	}
	if (!a) {
		ptx_register(p, v.name, v.type.bits);
		return;
	}
	if (in_memory)
		fits = n < a->n && o->kind == LOCAL && a->at[n].bytes == v.size;
	else
		fits = n < a->n && ((o->kind == REGISTER && o->bits == v.type.bits) ||
				    (o->kind == VALUE && !result));
	if (!fits)
		ptx_stop(p, "an argument of another kind");
	if (in_memory || result) {
		struct symbol *s = ptx_add(p, v.name, o->kind, o->value);

		s->bytes = v.size;
		s->bits = o->bits;
	} else {
		copied(p, &v, o);
	}
}

/* Reads the list of a function's results or parameters, if it has one. */
static void bind_all(struct ptx *p, const struct arguments *a, bool results)
{
	uint32_t n = 0;

	if (ptx_more(p) && *p->at == '(') {
		ptx_next(p);
		while (ptx_more(p) && *p->at != ')') {
			bind(p, a, n++, results);
			if (ptx_more(p) && *p->at == ',')
				ptx_next(p);
		}
		ptx_next(p);
	}
	if (a && n != a->n)
		ptx_stop(p, "too many arguments");
}

/* Reads the body of function F, in the place of a call, or without one. */
static void inlined(struct ptx *p, const struct symbol *f, const struct arguments *results,
		    const struct arguments *given)
{
	const char *at = p->at, *begin = p->begin;
	const uint32_t file = p->file, bottom = p->bottom, n_symbols = p->n_symbols;
	const uint32_t n_registers = p->n_registers, local = p->local, first = p->n_code;
	const uint32_t which = (uint32_t)(f - p->symbols);

	if (p->depth++ == MAX_DEPTH || f->open)
		ptx_stop(p, "a function that calls itself, or calls that are nested too deep");
	if (p->n_calls++ == MAX_CALLS)
		ptx_stop(p, "too many calls");
	ptx_make_room(p);
	p->at = (const char *)(uintptr_t)f->value;
	p->file = f->file;
	p->symbols[which].open = true;
	p->bottom = ++p->scope;
	bind_all(p, results, true);
	ptx_next(p);
	bind_all(p, given, false);
	while (!ptx_is(p, "{"))
		ptx_next(p);
	ptx_block(p);
	ptx_add(p, PTX_END, LABEL, p->n_code);
	ptx_resolve(p, first);
	ptx_all_resolved(p, first);
	ptx_give_back(p, n_registers, local);
	ptx_forget(p, n_symbols);
	p->symbols[which].open = false;
	p->scope--;
	p->bottom = bottom;
	p->file = file;
	p->at = at;
	p->begin = begin;
	p->depth--;
}

void ptx_alone(struct ptx *p, const struct symbol *f)
{
	p->alone = true;
	inlined(p, f, NULL, NULL);
}

/* Writes the form of a list of parameters, a word for each: as LOOK, for a call's arguments. */
static void look_of_list(struct ptx *p, char *look, size_t room)
{
	struct variable v;
	size_t n = 0;

	*look = 0;
	if (!ptx_more(p) || *p->at != '(')
		return;
	ptx_next(p);
	while (ptx_more(p) && *p->at != ')') {
		const bool in_memory = parameter(p, &v);

		n += (size_t)snprintf(look + n, n < room ? room - n : 0, "%c%u ",
				      in_memory ? 'm' : 'r', in_memory ? v.size : v.type.bits);
		if (n >= room)
			ptx_stop(p, "too many parameters of a function that is called by pointer");
		if (ptx_more(p) && *p->at == ',')
			ptx_next(p);
	}
	ptx_next(p);
}

static void look_of(struct ptx *p, const struct arguments *a, char *look, size_t room)
{
	size_t n = 0;
	uint32_t k;

	*look = 0;
	for (k = 0; k < a->n; k++) {
		const struct operand *o = &a->at[k].operand;

		n += (size_t)snprintf(look + n, n < room ? room - n : 0, "%c%u ",
				      o->kind == LOCAL ? 'm' : 'r',
				      o->kind == LOCAL ? a->at[k].bytes : o->bits);
		if (n >= room)
			ptx_stop(p, "too many parameters of a function that is called by pointer");
	}
}

/* Returns whether function F has results and parameters of that form. */
static bool looks_so(struct ptx *p, const struct symbol *f, const char *results, const char *given)
{
	const char *at = p->at;
	char look[600];
	bool so;

	p->at = (const char *)(uintptr_t)f->value;
	look_of_list(p, look, sizeof(look));
	so = strcmp(look, results) == 0;
	ptx_next(p);
	look_of_list(p, look, sizeof(look));
	so = so && strcmp(look, given) == 0;
	p->at = at;
	return so;
}

/* Makes a call of the function to which WHERE points: compares with each possible function. */
static void by_pointer(struct ptx *p, const struct operand *where, const struct arguments *results,
		       const struct arguments *given)
{
	const struct type type = ptx_type_of('u', 64);
	const uint64_t is = ptx_register(p, "", 1);
	char is_result[600], is_given[600];
	uint32_t i, n = p->n_symbols, over, end[256], n_end = 0;

	if (where->bits != 64)
		ptx_stop(p, "no address");
	look_of(p, results, is_result, sizeof(is_result));
	look_of(p, given, is_given, sizeof(is_given));
	for (i = 0; i < n; i++) {
		const struct symbol f = p->symbols[i];

		ptx_make_room(p);
		if (f.kind != FUNCTION || f.open || !looks_so(p, &f, is_result, is_given))
			continue;
		if (n_end == 256)
			ptx_stop(p, "too many functions that may be called by pointer");
		ptx_emit(p, &(struct instruction){
				    .op = OP_SETP,
				    .compare = NE,
				    .to = type,
				    .type = type,
				    .cut = 1,
				    .operands = {{.kind = REGISTER, .value = is, .bits = 1},
						 *where,
						 {.value = f.value}},
				    .n = 3,
				    .sources = 2,
				    .width = 1});
		over = p->n_code;
		ptx_emit(p, &(struct instruction){
				    .op = OP_BRA, .guarded = true, .guard = is, .width = 1});
		inlined(p, &p->symbols[i], results, given);
		end[n_end++] = p->n_code;
		ptx_emit(p, &(struct instruction){.op = OP_BRA, .width = 1});
		p->code[over].operands[0].value = p->n_code;
	}
	ptx_emit(p, &(struct instruction){.op = OP_TRAP, .width = 1});
	for (i = 0; i < n_end; i++)
		p->code[end[i]].operands[0].value = p->n_code;
}

/* Puts argument N of a call, of TYPE, into a register. */
static struct operand passed(struct ptx *p, const struct arguments *given, uint32_t n,
			     struct type type)
{
	struct instruction i = {
		.op = OP_MOV, .type = type, .to = type, .cut = type.mask, .width = 1};

	if (n >= given->n)
		ptx_stop(p, "too few arguments");
	i.operands[0] = (struct operand){.kind = REGISTER,
					 .value = ptx_register(p, "", type.bits),
					 .bits = type.bits};
	i.operands[1] = given->at[n].operand;
	i.n = 2;
	i.sources = 1;
	if (i.operands[1].kind != LOCAL)
		ptx_fits(p, &i.operands[1], type.bits, false);
	else if (given->at[n].bytes != type.bits / 8)
		ptx_stop(p, "an argument of another kind");
	else
		i.op = OP_LD;
	ptx_emit(p, &i);
	return i.operands[0];
}

/* Writes the register FROM to the result of a call. */
static void result_is(struct ptx *p, const struct arguments *results, struct operand from,
		      struct type type)
{
	if (results->n != 1 || results->at[0].operand.kind != LOCAL ||
	    results->at[0].bytes != type.bits / 8)
		ptx_stop(p, "an argument of another kind");
	ptx_emit(p, &(struct instruction){.op = OP_ST,
					  .type = type,
					  .to = type,
					  .operands = {results->at[0].operand, from},
					  .n = 2,
					  .width = 1});
}

/* Calls of functions that NVIDIA's driver supplies. GPU kernels have no heap, as on a VF: malloc()
 * returns NULL. */
static void given_by_driver(struct ptx *p, const char *name, const struct arguments *results,
			    const struct arguments *given)
{
	static const uint32_t bits[] = {64, 64, 32, 64}; /* of __assertfail(): text, file, line,
							    function */
	const struct type word = ptx_type_of('b', 32), pointer = ptx_type_of('b', 64);
	struct instruction i = {.op = OP_ASSERT, .width = 1};
	uint32_t k;

	if (strcmp(name, "malloc") == 0) {
		result_is(p, results, (struct operand){.kind = VALUE}, pointer);
	} else if (strcmp(name, "vprintf") == 0) {
		i.op = OP_PRINT;
		i.operands[1] = passed(p, given, 0, pointer);
		i.operands[2] = passed(p, given, 1, pointer);
		i.operands[0] = (struct operand){.kind = REGISTER,
						 .value = ptx_register(p, "", 32),
						 .bits = 32};
		i.n = 3;
		ptx_emit(p, &i);
		result_is(p, results, i.operands[0], word);
	} else if (strcmp(name, "__assertfail") == 0) {
		for (k = 0; k < 4; k++)
			i.operands[k] = passed(p, given, k, bits[k] == 32 ? word : pointer);
		i.n = 4;
		ptx_emit(p, &i);
	}
}

/* A call by pointer ends with the name of its targets, or of what it looks like. */
static void what_it_looks_like(struct ptx *p)
{
	const struct symbol *s;

	if (ptx_is(p, ","))
		ptx_next(p);
	s = ptx_find(p, p->token);
	if (!s || s->kind != TARGETS)
		ptx_stop(p, "a call by pointer without a prototype");
	ptx_next(p);
}

void ptx_call(struct ptx *p, const struct instruction *guard)
{
	struct arguments results = {.n = 0}, given = {.n = 0};
	struct operand where = {.kind = VALUE};
	char name[PTX_NAME];
	uint32_t over = p->n_code;
	const struct symbol *f;

	if (*ptx_next(p) == '(') {
		read_arguments(p, &results);
		ptx_want(p, ",");
		ptx_next(p);
	}
	snprintf(name, sizeof(name), "%s", p->token);
	f = ptx_find(p, name);
	if (f && f->kind == REGISTER)
		where = ptx_operand(p);
	else if (!f || (f->kind != FUNCTION && f->kind != MISSING))
		ptx_stop(p, "a call of what is no function");
	if (*ptx_next(p) == ',') {
		ptx_next(p);
		if (ptx_is(p, "(")) {
			read_arguments(p, &given);
			ptx_next(p);
		}
	}
	if (where.kind == REGISTER)
		what_it_looks_like(p);
	if (!ptx_is(p, ";"))
		ptx_stop(p, "no ;");
	if (p->alone)
		return;
	if (guard->guarded) {
		struct instruction *skips = ptx_emit(p, guard);

		skips->op = OP_BRA;
		skips->negated = !guard->negated;
	}
	if (where.kind == REGISTER)
		by_pointer(p, &where, &results, &given);
	else if (f->kind == FUNCTION)
		inlined(p, f, &results, &given);
	else if (ptx_is_given(name))
		given_by_driver(p, name, &results, &given);
	else if (!p->part)
		ptx_stop(p, "a call of a function that is nowhere defined");
	if (guard->guarded)
		p->code[over].operands[0].value = p->n_code;
}
