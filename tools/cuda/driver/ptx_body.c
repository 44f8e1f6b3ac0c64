/* SPDX-License-Identifier: MIT */
/* The bodies of entries and functions: registers, variables, labels and instructions. */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_private.h"

#define MAX_NESTED 400u

struct instruction *ptx_emit(struct ptx *p, const struct instruction *what)
{
	struct instruction *i = &p->code[p->n_code++];

	*i = *what;
	i->at = p->begin;
	return i;
}

void ptx_make_room(struct ptx *p)
{
	if (p->n_code + 1024 < p->has_code)
		return;
	if (p->has_code > MAX_CODE)
		ptx_stop(p, "too much code");
	p->has_code = p->has_code * 2 + 2048;
	p->code = realloc(p->code, p->has_code * sizeof(p->code[0]));
}

/* Reads .reg [.vN] .TYPE NAME[<N>] [, ...]. */
static void registers(struct ptx *p)
{
	char name[PTX_NAME], each[PTX_NAME + 12];
	struct variable v = ptx_declaration(p);
	const uint32_t bits = v.type.bits * v.type.lanes, n = v.rows[0] / v.each;
	enum literal literal;
	uint64_t count, i;
	struct symbol *s;

	do {
		snprintf(name, sizeof(name), "%s", p->token);
		ptx_next(p);
		if (ptx_is(p, "<")) {
			ptx_next(p);
			count = ptx_number(p, &literal);
			for (i = 0; i < count; i++) {
				snprintf(each, sizeof(each), "%s%llu", name, (unsigned long long)i);
				ptx_register(p, each, bits);
			}
			ptx_want(p, ">");
			ptx_next(p);
		} else if (n > 1) {
			s = ptx_add(p, name, VECTOR, p->n_registers);
			s->bits = (uint8_t)bits;
			s->bytes = n;
			for (i = 0; i < n; i++)
				ptx_register(p, "", bits);
		} else {
			ptx_register(p, name, bits);
		}
	} while (ptx_another(p));
	if (!ptx_is(p, ";"))
		ptx_stop(p, "no ;");
}

/* Reads the predicate that an instruction may begin with. */
static void guard(struct ptx *p, struct instruction *i)
{
	struct operand o;

	if (!ptx_is(p, "@"))
		return;
	i->guarded = true;
	i->negated = *ptx_next(p) == '!';
	if (i->negated)
		ptx_next(p);
	o = ptx_operand(p);
	if (o.kind != REGISTER || o.bits != 1)
		ptx_stop(p, "no predicate");
	i->guard = o.value;
	ptx_next(p);
}

/* mov of a register to a list, the lowest bits first: FIRST becomes a bfe, and one for each other
 * element follows it. */
static void unpack(struct ptx *p, struct instruction *first)
{
	struct operand list[8], from;
	const uint32_t n = ptx_elements(p, list), bits = first->type.bits / n;
	struct instruction bfe = *first;
	uint32_t k;

	p->n_code--;
	ptx_want(p, ",");
	ptx_next(p);
	from = ptx_operand(p);
	ptx_fits(p, &from, first->type.bits, false);
	ptx_want(p, ";");
	bfe.op = OP_BFE;
	bfe.type = ptx_type_of('u', first->type.bits);
	bfe.n = 4;
	bfe.sources = 3;
	bfe.cut = ptx_type_of('u', bits).mask;
	for (k = 0; k < n; k++) {
		if (list[k].kind != REGISTER)
			ptx_stop(p, "no register");
		ptx_fits(p, &list[k], bits, false);
		bfe.operands[0] = list[k];
		bfe.operands[1] = from;
		bfe.operands[2].value = k * bits;
		bfe.operands[3].value = bits;
		ptx_emit(p, &bfe);
	}
}

/* mov of a list to a register: FIRST moves the highest element, and a mad for each other one
 * shifts what is there and adds it. */
static void pack(struct ptx *p, struct instruction *first)
{
	struct operand list[8];
	const uint32_t n = ptx_elements(p, list), bits = first->type.bits / n;
	struct instruction mad = *first;
	uint32_t k;

	ptx_want(p, ";");
	for (k = 0; k < n; k++) {
		if (list[k].literal == INTEGER)
			list[k].value &= ptx_type_of('u', bits).mask;
		else
			ptx_fits(p, &list[k], bits, false);
	}
	first->operands[1] = list[n - 1];
	first->n = 2;
	first->sources = 1;
	mad.op = OP_MAD;
	mad.type = ptx_type_of('u', first->type.bits);
	mad.operands[1] = first->operands[0]; /* larger than any element, and so none of them */
	mad.n = 4;
	mad.sources = 3;
	for (k = n - 1; k > 0; k--) {
		mad.operands[2].value = UINT64_C(1) << bits;
		mad.operands[3] = list[k - 1];
		ptx_emit(p, &mad);
	}
}

/* mov.vN VECTOR, {LIST}: FIRST becomes a mov for each element. */
static void fill(struct ptx *p, struct instruction *first, const struct symbol *vector)
{
	struct instruction mov = *first;
	struct operand list[8], to = {.kind = REGISTER};
	uint32_t k;

	if (!vector || vector->kind != VECTOR || vector->bytes != first->width)
		ptx_stop(p, "no vector");
	to.value = vector->value;
	to.bits = vector->bits;
	ptx_fits(p, &to, first->type.bits, false);
	ptx_want(p, ",");
	ptx_want(p, "{");
	if (ptx_elements(p, list) != first->width)
		ptx_stop(p, "another number of elements");
	ptx_want(p, ";");
	p->n_code--;
	mov.n = 2;
	mov.sources = 1;
	mov.cut = first->type.mask;
	for (k = 0; k < mov.width; k++, to.value++) {
		if (!list[k].literal)
			ptx_fits(p, &list[k], to.bits, false);
		mov.operands[0] = to;
		mov.operands[1] = list[k];
		ptx_emit(p, &mov);
	}
}

/* mov of a list, or of a vector. False: it is a plain one, whose operands begin at the next token.
 */
static bool moves_list(struct ptx *p, struct instruction *i)
{
	const char *at = p->at;
	const struct symbol *s;
	bool packs;

	ptx_next(p);
	s = ptx_find(p, p->token);
	if (ptx_is(p, "{")) {
		unpack(p, i);
		return true;
	}
	if (i->width > 1) {
		fill(p, i, s);
		return true;
	}
	packs = s && s->kind == REGISTER && *ptx_next(p) == ',' && *ptx_next(p) == '{';
	if (!packs) {
		p->at = at;
		return false;
	}
	i->operands[0] = (struct operand){.kind = REGISTER, .value = s->value, .bits = s->bits};
	ptx_fits(p, &i->operands[0], i->type.bits, false);
	i->cut = i->type.mask;
	pack(p, i);
	return true;
}

/* brx.idx: a comparison and a branch for each target, and a trap behind them. */
static void branch_by_index(struct ptx *p, const struct instruction *brx)
{
	const struct symbol *s = ptx_find(p, brx->label);
	const char *at = p->at;
	const uint64_t is = ptx_register(p, "", 1);
	struct instruction compare = {.op = OP_SETP,
				      .compare = EQ,
				      .type = ptx_type_of('u', 32),
				      .to = ptx_type_of('u', 32),
				      .cut = 1,
				      .n = 3,
				      .sources = 2,
				      .width = 1};
	struct instruction branch = {.op = OP_BRA, .guarded = true, .guard = is, .width = 1};
	struct instruction *over = NULL;
	uint32_t k = 0;

	if (!s || s->kind != TARGETS)
		ptx_stop(p, "no list of targets");
	p->n_code--;
	if (brx->guarded) {
		over = ptx_emit(p, brx);
		over->op = OP_BRA;
		over->label = NULL;
		over->negated = !brx->negated;
	}
	compare.operands[0] = (struct operand){.kind = REGISTER, .value = is, .bits = 1};
	compare.operands[1] = brx->operands[0];
	p->at = (const char *)(uintptr_t)s->value;
	do {
		ptx_next(p);
		if (k == 400)
			ptx_stop(p, "too many targets");
		compare.operands[2] = (struct operand){.value = k++, .literal = INTEGER};
		ptx_emit(p, &compare);
		branch.label = strcpy(ptx_keep(p, strlen(p->token) + 1), p->token);
		ptx_emit(p, &branch);
		ptx_next(p);
	} while (ptx_is(p, ","));
	p->at = at;
	ptx_emit(p, &(struct instruction){.op = OP_TRAP, .width = 1});
	if (over)
		over->operands[0].value = p->n_code;
}

/* Returns whether threads of a warp can tell, by I, that they do not execute it together. */
static bool needs_step(const struct instruction *i)
{
	if (i->op == OP_LD || i->op == OP_ST)
		return i->flags & FLAG_VOLATILE &&
		       (i->space == SPACE_SHARED || i->space == SPACE_GENERIC);
	if (i->op == OP_ATOM || i->op == OP_RED)
		return i->space == SPACE_SHARED;
	return i->op == OP_ACTIVEMASK ||
	       ((i->op == OP_VOTE || i->op == OP_SHFL) && !(i->flags & FLAG_SYNC));
}

static void finish(struct ptx *p, struct instruction *i)
{
	i->shared = i->space == SPACE_SHARED;
	if ((i->op == OP_ADD || i->op == OP_SUB) && i->shared) /* cvta */
		i->operands[i->n++] = (struct operand){.kind = SPECIAL, .value = SHARED_AT};
	i->sources = i->n > 4 ? 4 : i->n > 0 ? i->n - 1 : 0;
	p->in_step |= needs_step(i);
	p->allocas |= i->op == OP_ALLOCA;
	if (i->op == OP_RET && p->depth > 0) {
		i->op = OP_BRA;
		i->label = PTX_END;
	}
	if (i->op == OP_BRX) {
		const struct instruction brx = *i;

		branch_by_index(p, &brx);
	}
}

static void instruction(struct ptx *p)
{
	struct instruction begun = {.width = 1, .rounding = FE_TONEAREST}, *i;
	const char *form;

	ptx_make_room(p);
	guard(p, &begun);
	i = ptx_emit(p, &begun);
	ptx_opcode(p, i, &form);
	if (i->op == OP_CALL) {
		p->n_code--;
		ptx_call(p, &begun);
		return;
	}
	if (i->op == OP_NOTHING && strcmp(form, "") != 0)
		i->space = SPACE_GLOBAL; /* hints have any address */
	if (i->op == OP_MOV && i->space == SPACE_GENERIC && moves_list(p, i))
		return;
	ptx_operands(p, i, form);
	finish(p, i);
}

/* What the line says is for debuggers. */
static void line(struct ptx *p)
{
	p->at += strcspn(p->at, "\n");
}

static void statement(struct ptx *p)
{
	while (!ptx_is(p, ";"))
		ptx_next(p);
}

/* A thread's own memory; or what a call passes, which is no different. */
static void local(struct ptx *p)
{
	struct variable v = ptx_declaration(p);
	uint32_t at;

	do {
		ptx_variable(p, &v);
		at = ptx_place(p, &p->local, &v);
		ptx_add(p, v.name, LOCAL, at)->bytes = v.size;
		ptx_next(p);
	} while (ptx_another(p));
	if (!ptx_is(p, ";"))
		ptx_stop(p, "no ;");
}

/* An entry's. A function has its own only once, wherever it is called: compilers put that outside
 * of it. */
static void own_shared(struct ptx *p)
{
	if (p->depth > 0)
		ptx_stop(p, "shared memory in a function");
	ptx_shared_variable(p);
}

/* Behind a label: the targets of a branch, or what a call by pointer looks like. */
static bool list(struct ptx *p, const char *name)
{
	const char *at = p->at;

	ptx_next(p);
	if (!ptx_is(p, ".branchtargets") && !ptx_is(p, ".callprototype") &&
	    !ptx_is(p, ".calltargets")) {
		p->at = at;
		return false;
	}
	ptx_add(p, name, TARGETS, (uint64_t)(uintptr_t)p->at);
	statement(p);
	return true;
}

static void label(struct ptx *p)
{
	char name[PTX_NAME];

	snprintf(name, sizeof(name), "%s", p->token);
	ptx_next(p);
	if (!ptx_more(p) || !list(p, name))
		ptx_add(p, name, LABEL, p->n_code);
}

static bool is_label(struct ptx *p)
{
	return ptx_more(p) && p->at[0] == ':' && p->at[1] != ':';
}

void ptx_resolve(struct ptx *p, uint32_t first)
{
	const struct symbol *s;
	uint32_t i;

	for (i = first; i < p->n_code; i++) {
		if (!p->code[i].label)
			continue;
		s = ptx_find(p, p->code[i].label);
		if (!s || s->kind != LABEL || s->scope != p->scope)
			continue;
		p->code[i].operands[0].value = s->value;
		p->code[i].label = NULL;
	}
}

void ptx_all_resolved(struct ptx *p, uint32_t first)
{
	uint32_t i;

	for (i = first; i < p->n_code; i++)
		if (p->code[i].label) {
			p->begin = p->code[i].at;
			ptx_stop(p, "a label that is nowhere");
		}
}

void ptx_block(struct ptx *p)
{
	static const struct {
		const char *word;
		void (*read)(struct ptx *p);
	} words[] = {{".reg", registers}, {".shared", own_shared}, {".local", local},
		     {".param", local},	  {".loc", line},	   {".pragma", statement},
		     {"@@", line}};
	const uint32_t first = p->n_code;
	size_t i;

	if (++p->scope - p->bottom > MAX_NESTED)
		ptx_stop(p, "blocks that are nested too deep");
	for (ptx_next(p); !ptx_is(p, "}"); ptx_next(p)) {
		p->begin = p->at - strlen(p->token);
		for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (ptx_is(p, words[i].word))
				break;
		if (i < sizeof(words) / sizeof(words[0]))
			words[i].read(p);
		else if (*p->token == '.')
			ptx_stop(p, "an unknown directive");
		else if (ptx_is(p, "{"))
			ptx_block(p);
		else if (is_label(p))
			label(p);
		else if (!ptx_is(p, ";"))
			instruction(p);
	}
	ptx_resolve(p, first);
	ptx_close_scope(p);
}

void ptx_give_back(struct ptx *p, uint32_t n_registers, uint32_t local)
{
	if (p->most_registers < p->n_registers)
		p->most_registers = p->n_registers;
	if (p->most_local < p->local)
		p->most_local = p->local;
	p->n_registers = n_registers;
	p->local = local;
}
