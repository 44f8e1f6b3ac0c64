/* SPDX-License-Identifier: MIT */
/* Prepares frequent instructions: decides once what they do and where their sources are. ptx_run.c
 * executes them. */
#include <stdlib.h>

#include "ptx_private.h"

/* The constants of a text, by their values: the head of each chain is an index and one. */
struct known {
	uint32_t heads[BUCKETS];
	uint32_t *next;
};

/* Returns the register that holds the constant V from the start. */
static uint32_t constant(struct ptx *p, struct known *known, uint64_t v)
{
	uint32_t *head = &known->heads[(v ^ v >> 32 ^ v >> 11) % BUCKETS], i;

	for (i = *head; i > 0; i = known->next[i - 1])
		if (p->constants[i - 1] == v)
			return p->n_registers + i - 1;
	if (p->n_constants == p->has_constants) {
		p->has_constants = p->has_constants * 2 + 64;
		p->constants = realloc(p->constants, p->has_constants * sizeof(p->constants[0]));
		known->next = realloc(known->next, p->has_constants * sizeof(known->next[0]));
	}
	p->constants[p->n_constants] = v;
	known->next[p->n_constants] = *head;
	*head = ++p->n_constants;
	return p->n_registers + p->n_constants - 1;
}

/* Finds the register for operand O. Returns false if O is neither a register nor a constant. */
static bool source(struct ptx *p, struct known *known, const struct operand *o, uint32_t *out)
{
	if (o->kind == VALUE)
		*out = constant(p, known, o->value + (uint64_t)o->offset);
	else
		*out = (uint32_t)o->value;
	return o->kind == VALUE || o->kind == REGISTER;
}

static enum does does_compute(const struct instruction *i)
{
	static const struct {
		enum op op;
		enum does does;
		uint32_t sources;
	} all[] = {
		{OP_MOV, DOES_MOVE, 1},	    {OP_ADD, DOES_ADD, 2}, {OP_SUB, DOES_SUB, 2},
		{OP_MUL, DOES_MUL, 2},	    {OP_MAD, DOES_MAD, 3}, {OP_AND, DOES_AND, 2},
		{OP_OR, DOES_OR, 2},	    {OP_XOR, DOES_XOR, 2}, {OP_SHL, DOES_SHIFT_LEFT, 2},
		{OP_SETP, DOES_COMPARE, 2},
	};
	const bool floats = i->type.kind == 'f' || i->type.kind == 'g';
	uint32_t k;

	if (i->flags & (FLAG_HIGH | FLAG_SATURATES) || i->paired || i->type.lanes == 2 ||
	    i->operands[0].kind != REGISTER)
		return DOES_MORE;
	for (k = 0; k < sizeof(all) / sizeof(all[0]); k++)
		if (all[k].op == i->op && all[k].sources == i->sources &&
		    (!floats || i->op == OP_MOV))
			return all[k].does;
	return DOES_MORE;
}

/* ld and st of one element of global memory: the address is a register and a constant. */
static enum does does_access(struct ptx *p, struct known *known, const struct instruction *i,
			     struct quick *q)
{
	const bool loads = i->op == OP_LD;
	const struct operand *at = &i->operands[loads ? 1 : 0], *what = &i->operands[loads ? 0 : 1];

	if (i->width != 1 || i->shared || i->flags & FLAG_VOLATILE || at->kind != REGISTER ||
	    (i->type.bits != 32 && i->type.bits != 64) || (i->type.kind == 's' && loads) ||
	    (loads ? what->kind != REGISTER : !source(p, known, what, &q->from[2])))
		return DOES_MORE;
	q->from[0] = (uint32_t)at->value;
	q->from[1] = constant(p, known, (uint64_t)at->offset);
	q->to = (uint32_t)what->value;
	if (loads)
		return i->type.bits == 32 ? DOES_LOAD_32 : DOES_LOAD_64;
	return i->type.bits == 32 ? DOES_STORE_32 : DOES_STORE_64;
}

static enum does prepare(struct ptx *p, struct known *known, const struct instruction *i,
			 struct quick *q)
{
	enum does does;
	uint32_t k;

	if (i->op == OP_LD || i->op == OP_ST)
		return does_access(p, known, i, q);
	q->to = (uint32_t)i->operands[0].value;
	if (i->op == OP_BRA)
		return DOES_BRANCH;
	does = does_compute(i);
	for (k = 0; k < i->sources && does != DOES_MORE; k++)
		if (!source(p, known, &i->operands[k + 1], &q->from[k]))
			return DOES_MORE;
	return does;
}

void ptx_prepare(struct ptx *p)
{
	struct known known = {.next = NULL};
	uint32_t k;

	p->quick = malloc(p->n_code * sizeof(p->quick[0]));
	for (k = 0; k < p->n_code; k++) {
		const struct instruction *i = &p->code[k];
		struct quick *q = &p->quick[k];

		*q = (struct quick){
			.mask = i->type.mask,
			.sign = i->type.sign,
			.bits = i->type.bits,
			.cut = i->cut,
			.guard = (uint32_t)i->guard,
			.compare = (uint8_t)i->compare,
			.guarded = i->guarded,
			.negated = i->negated,
		};
		q->does = (uint8_t)prepare(p, &known, i, q);
	}
	free(known.next);
}
