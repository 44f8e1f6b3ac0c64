/* SPDX-License-Identifier: MIT */
/* Prepares the instructions that are executed most: what they do, and where their sources are, is
 * found out once. ptx_run.c executes them. */
#include "ptx_private.h"

/* The register that holds V from the start. */
static uint16_t constant(struct ptx *p, uint64_t v)
{
	uint32_t i;

	for (i = 0; i < p->n_constants && p->constants[i] != v; i++)
		;
	if (i == p->n_constants)
		p->constants[p->n_constants++] = v;
	return (uint16_t)(p->n_registers + i);
}

/* Finds the register for operand O. False: it is neither a register nor a constant. */
static bool source(struct ptx *p, const struct operand *o, uint16_t *out)
{
	if (o->kind == VALUE)
		*out = constant(p, o->value + (uint64_t)o->offset);
	else
		*out = (uint16_t)o->value;
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
	uint32_t k;

	for (k = 0; k < sizeof(all) / sizeof(all[0]); k++)
		if (all[k].op == i->op && all[k].sources == i->sources && !i->high &&
		    (i->type.kind != 'f' || i->op == OP_MOV) && i->operands[0].kind == REGISTER)
			return all[k].does;
	return DOES_MORE;
}

/* ld and st of one element of global memory: the address is a register and a constant. */
static enum does does_access(struct ptx *p, const struct instruction *i, struct quick *q)
{
	const bool loads = i->op == OP_LD;
	const struct operand *at = &i->operands[loads ? 1 : 0], *what = &i->operands[loads ? 0 : 1];

	if (i->n != 2 || i->shared || i->seen_by_others || at->kind != REGISTER ||
	    (i->type.bits != 32 && i->type.bits != 64) || (i->type.kind == 's' && loads) ||
	    (loads ? what->kind != REGISTER : !source(p, what, &q->from[2])))
		return DOES_MORE;
	q->from[0] = (uint16_t)at->value;
	q->from[1] = constant(p, (uint64_t)at->offset);
	q->to = (uint16_t)what->value;
	if (loads)
		return i->type.bits == 32 ? DOES_LOAD_32 : DOES_LOAD_64;
	return i->type.bits == 32 ? DOES_STORE_32 : DOES_STORE_64;
}

static enum does prepare(struct ptx *p, const struct instruction *i, struct quick *q)
{
	enum does does;
	uint32_t k;

	if (i->op == OP_LD || i->op == OP_ST)
		return does_access(p, i, q);
	q->to = (uint16_t)i->operands[0].value;
	if (i->op == OP_BRA)
		return DOES_BRANCH;
	does = does_compute(i);
	for (k = 0; k < i->sources && does != DOES_MORE; k++)
		if (!source(p, &i->operands[k + 1], &q->from[k]))
			return DOES_MORE;
	return does;
}

void ptx_prepare(struct ptx *p)
{
	uint32_t k;

	for (k = 0; k < p->n_code; k++) {
		const struct instruction *i = &p->code[k];
		struct quick *q = &p->quick[k];

		*q = (struct quick){
			.type = i->type,
			.cut = i->wide		  ? UINT64_MAX
			       : i->op == OP_SETP ? 1
						  : i->type.mask,
			.guard = (uint16_t)i->guard,
			.compare = (uint8_t)i->compare,
			.guarded = i->guarded,
			.negated = i->negated,
		};
		q->does = (uint8_t)prepare(p, i, q);
	}
}
