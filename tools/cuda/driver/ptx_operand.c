/* SPDX-License-Identifier: MIT */
/* The operands of instructions. */
#include <string.h>

#include "ptx_private.h"

uint32_t ptx_register(struct ptx *p, const char *name, uint32_t bits)
{
	if (p->n_registers == MAX_REGISTERS)
		ptx_stop(p, "too many registers");
	ptx_add(p, name, REGISTER, p->n_registers)->bits = (uint8_t)bits;
	return p->n_registers++;
}

static bool special(const char *token, struct operand *o)
{
	static const struct {
		const char *name;
		enum special number;
		uint8_t bits;
	} specials[] = {
		{"%tid.", TID, 32},
		{"%ntid.", NTID, 32},
		{"%ctaid.", CTAID, 32},
		{"%nctaid.", NCTAID, 32},
		{"%globaltimer", TIME, 64},
		{"%globaltimer_lo", TIME, 32},
		{"%globaltimer_hi", TIME_HIGH, 32},
		{"%clock", CLOCK, 32},
		{"%clock_hi", CLOCK_HIGH, 32},
		{"%clock64", CLOCK, 64},
		{"%laneid", LANE, 32},
		{"%warpid", WARP_NUMBER, 32},
		{"%nwarpid", WARPS, 32},
		{"%smid", PROCESSOR, 32},
		{"%nsmid", PROCESSORS, 32},
		{"%gridid", GRID, 64},
		{"%lanemask_eq", LANES_EQ, 32},
		{"%lanemask_le", LANES_LE, 32},
		{"%lanemask_lt", LANES_LT, 32},
		{"%lanemask_ge", LANES_GE, 32},
		{"%lanemask_gt", LANES_GT, 32},
		{"%dynamic_smem_size", SHARED_DYNAMIC, 32},
		{"%total_smem_size", SHARED_ALL, 32},
		{"%envreg1", WORKSPACE_HIGH, 32},
		{"%envreg2", WORKSPACE, 32},
	};
	size_t i, n;

	for (i = 0; i < sizeof(specials) / sizeof(specials[0]); i++) {
		const bool vector = specials[i].name[n = strlen(specials[i].name) - 1] == '.';

		*o = (struct operand){.kind = SPECIAL,
				      .value = specials[i].number,
				      .bits = specials[i].bits};
		if (!vector && strcmp(token, specials[i].name) == 0)
			return true;
		if (!vector || strncmp(token, specials[i].name, n + 1) != 0)
			continue;
		if (token[n + 1] < 'w' || token[n + 1] > 'z' || token[n + 2])
			return false;
		if (token[n + 1] == 'w') /* it is always 0 */
			o->value = ZERO;
		else
			o->value += (uint64_t)(token[n + 1] - 'x');
		return true;
	}
	return false;
}

/* Finds NAME.x to NAME.w: a register of a vector. */
static bool of_vector(struct ptx *p, struct operand *o)
{
	char *dot = strrchr(p->token, '.');
	const char *which = dot && dot[1] && !dot[2] ? strchr("xyzwrgba", dot[1]) : NULL;
	const struct symbol *s;

	if (!which)
		return false;
	*dot = 0;
	s = ptx_find(p, p->token);
	*dot = '.';
	if (!s || s->kind != VECTOR)
		return false;
	*o = (struct operand){.kind = REGISTER,
			      .value = s->value + (uint64_t)(which - "xyzwrgba") % 4,
			      .bits = s->bits};
	return o->value < s->value + s->bytes;
}

struct operand ptx_operand(struct ptx *p)
{
	struct operand o = {.kind = VALUE};
	const struct symbol *s;
	enum literal literal;

	if (ptx_is(p, "_")) /* the result is discarded */
		return (struct operand){.kind = REGISTER, .value = ptx_register(p, "", 0)};
	if (ptx_is(p, "WARP_SZ"))
		return (struct operand){.kind = VALUE, .value = WARP, .literal = INTEGER};
	s = ptx_find(p, p->token);
	if (s && s->kind == MISSING && p->part) /* another text has it */
		return (struct operand){.kind = VALUE, .bits = 64};
	if (s && s->kind == FUNCTION)
		return (struct operand){.kind = VALUE, .value = s->value, .bits = 64};
	if (s) {
		if (s->kind >= LABEL)
			ptx_stop(p, "no operand");
		o.kind = s->kind;
		o.value = s->value;
		o.bits = s->kind == VALUE && !s->bits ? 64 : s->bits;
		if (s->kind == LOCAL || s->kind == PARAM)
			o.bits = 64;
		return o;
	}
	if (special(p->token, &o) || of_vector(p, &o))
		return o;
	if (p->token[0] == '%')
		ptx_stop(p, "the driver in software does not have this register");
	o = (struct operand){.kind = VALUE};
	o.value = ptx_number(p, &literal);
	o.literal = (uint8_t)literal;
	return o;
}

/* Reads the offset that is added to an operand or subtracted from it. */
static void offset(struct ptx *p, struct operand *o)
{
	enum literal literal;
	bool minus;

	if (!ptx_more(p) || (*p->at != '+' && *p->at != '-'))
		return;
	minus = *ptx_next(p) == '-';
	ptx_next(p);
	o->offset = (int64_t)ptx_number(p, &literal);
	o->offset = minus ? -o->offset : o->offset;
	if (literal != INTEGER)
		ptx_stop(p, "no number");
}

static bool is_float(const struct type *type)
{
	return type->kind == 'f' || type->kind == 'g';
}

static bool is_shared(const struct operand *o)
{
	return o->kind == DYNAMIC || (o->kind == VALUE && o->bits == 32);
}

/* Reads [x] or [x+4], of the instruction's space. */
static struct operand memory(struct ptx *p, const struct instruction *i, bool shared)
{
	struct operand o;

	if (!ptx_is(p, "["))
		ptx_stop(p, "no address");
	ptx_next(p);
	o = ptx_operand(p);
	offset(p, &o);
	ptx_want(p, "]");
	if (o.kind == SPECIAL || (o.kind == REGISTER && o.bits != 64 && !(shared && o.bits == 32)))
		ptx_stop(p, "no address");
	if (o.kind != REGISTER && !o.literal && is_shared(&o) != shared)
		ptx_stop(p, "a variable of another space");
	if (o.kind == PARAM && i->space != SPACE_PARAM && i->op != OP_NOTHING)
		ptx_stop(p, "a variable of another space");
	return o;
}

void ptx_fits(struct ptx *p, const struct operand *o, uint32_t bits, bool wider)
{
	if (o->kind == DYNAMIC || o->literal || (o->kind == REGISTER && o->bits == 0) ||
	    (o->kind == VALUE && o->bits == 32 && bits >= 32))
		return;
	if (o->bits != bits && !(wider && o->bits > bits))
		ptx_stop(p, "an operand of another size");
}

/* A float may be written as a single or a double one. */
static void literal(struct ptx *p, struct operand *o, const struct type *type)
{
	double d;
	float f;

	if (type->kind == 'f' && type->bits >= 32) {
		if (o->literal == INTEGER)
			ptx_stop(p, "an integer in the place of a float");
		if (o->literal == DOUBLE && type->bits == 32) {
			memcpy(&d, &o->value, sizeof(d));
			f = (float)d;
			o->value = 0;
			memcpy(&o->value, &f, sizeof(f));
		} else if (o->literal == SINGLE && type->bits == 64) {
			memcpy(&f, &o->value, sizeof(f));
			d = (double)f;
			memcpy(&o->value, &d, sizeof(d));
		}
	} else if (type->kind == 'f' || type->kind == 'g') {
		ptx_stop(p, "a number in the place of a float of 16 bits");
	} else if (o->literal != INTEGER &&
		   (type->kind != 'b' || type->bits != (o->literal == SINGLE ? 32 : 64))) {
		ptx_stop(p, "a float in the place of an integer");
	}
}

static struct operand typed(struct ptx *p, const struct type *type, bool wider)
{
	struct operand o = ptx_operand(p);

	if (o.kind != REGISTER)
		offset(p, &o);
	if (o.literal)
		literal(p, &o, type);
	else
		ptx_fits(p, &o, type->bits * type->lanes, wider);
	return o;
}

static struct operand destination(struct ptx *p, uint32_t bits, bool wider)
{
	struct operand o = ptx_operand(p);

	if (o.kind != REGISTER)
		ptx_stop(p, "no register");
	ptx_fits(p, &o, bits, wider);
	return o;
}

static void second(struct ptx *p, struct instruction *i)
{
	if (!ptx_more(p) || *p->at != '|') {
		if (i->type.lanes == 2)
			ptx_stop(p, "two comparisons, and one predicate");
		return;
	}
	ptx_next(p);
	ptx_next(p);
	i->second = destination(p, 1, false).value;
	i->paired = true;
}

uint32_t ptx_elements(struct ptx *p, struct operand *list)
{
	uint32_t n = 0;

	do {
		ptx_next(p);
		if (n == 8)
			ptx_stop(p, "too many elements");
		list[n++] = ptx_operand(p);
		ptx_next(p);
	} while (ptx_is(p, ","));
	if (!ptx_is(p, "}"))
		ptx_stop(p, "no }");
	return n;
}

/* Reads the registers of ld or the sources of st: as many as WIDTH says. */
static void moved(struct ptx *p, struct instruction *i, bool loads)
{
	const struct symbol *s = ptx_find(p, p->token);
	struct operand list[8];
	uint32_t n = 1, k;

	if (ptx_is(p, "{")) {
		n = ptx_elements(p, list);
	} else if (s && s->kind == VECTOR) {
		for (n = 0; n < s->bytes; n++)
			list[n] = (struct operand){.kind = REGISTER,
						   .value = s->value + n,
						   .bits = s->bits};
	} else {
		list[0] = ptx_operand(p);
	}
	if (n != i->width)
		ptx_stop(p, "another number of elements");
	i->cut = UINT64_MAX;
	for (k = 0; k < n; k++) {
		if (loads && list[k].kind != REGISTER)
			ptx_stop(p, "no register");
		if (list[k].literal)
			literal(p, &list[k], &i->type);
		else
			ptx_fits(p, &list[k], i->type.bits, !is_float(&i->type));
		i->operands[i->n++] = list[k];
	}
}

/* %r or a part of it: %r.b0 to %r.b3, %r.h0 and %r.h1. */
static struct operand part(struct ptx *p)
{
	static const char *const parts[] = {".b0", ".b1", ".b2", ".b3", ".h0", ".h1"};
	char *dot = strrchr(p->token, '.');
	struct operand o;
	uint8_t which = 0, k;

	for (k = 0; dot && k < 6; k++)
		if (strcmp(dot, parts[k]) == 0)
			which = k + 1;
	if (which)
		*dot = 0;
	o = typed(p, &(struct type){'b', 32, 1, UINT32_MAX, 0}, false);
	o.part = which;
	return o;
}

static struct operand predicate(struct ptx *p, bool may_be_inverted)
{
	const bool inverted = ptx_is(p, "!");
	struct operand o;

	if (inverted && !may_be_inverted)
		ptx_stop(p, "an inverted predicate");
	if (inverted)
		ptx_next(p);
	o = typed(p, &(struct type){'b', 1, 1, 1, 0}, false);
	if (inverted && o.kind != REGISTER)
		ptx_stop(p, "no predicate");
	if (inverted)
		o.kind = INVERTED;
	return o;
}

/* Reads the address of cvta and isspacep. */
static struct operand address(struct ptx *p, const struct instruction *i)
{
	struct operand o = ptx_operand(p);

	if (o.kind != REGISTER)
		offset(p, &o);
	ptx_fits(p, &o, 64, false);
	if (o.kind != REGISTER && !o.literal && i->op != OP_ISSPACEP &&
	    is_shared(&o) != (i->space == SPACE_SHARED))
		ptx_stop(p, "a variable of another space");
	return o;
}

static struct operand integer(struct ptx *p)
{
	struct operand o = ptx_operand(p);

	if (o.literal != INTEGER)
		ptx_stop(p, "no integer");
	return o;
}

static uint64_t mask_of(const struct operand *o)
{
	return o->bits == 0 || o->bits == 64 ? UINT64_MAX : (UINT64_C(1) << o->bits) - 1;
}

/* Reads the operand that LETTER of a form (ptx_forms.c) means. */
static void one(struct ptx *p, struct instruction *i, char letter)
{
	static const struct type word = {'b', 32, 1, UINT32_MAX, 0};
	struct type twice = {i->type.kind, (uint8_t)(i->type.bits * 2), 1, UINT64_MAX, 0};
	struct operand *o = &i->operands[i->n];

	switch (letter) {
	case 'V':
	case 'v':
		moved(p, i, letter == 'V');
		return;
	case 'D':
	case 'S':
		*o = destination(p, i->to.bits * i->to.lanes, false);
		i->cut = i->to.mask;
		break;
	case 'R':
		*o = destination(p, i->to.bits * i->to.lanes, !is_float(&i->to));
		i->cut = mask_of(o);
		break;
	case 'X':
		*o = destination(p, twice.bits, false);
		i->cut = mask_of(o);
		break;
	case 'W':
	case 'E':
		*o = destination(p, 32, false);
		i->cut = UINT32_MAX;
		break;
	case 'Q':
	case 'O':
		*o = destination(p, 1, false);
		i->cut = 1;
		break;
	case 't':
		*o = typed(p, &i->type, false);
		break;
	case 'f':
		*o = typed(p, &i->to, false);
		break;
	case 'r':
		*o = typed(p, &i->type, !is_float(&i->type));
		break;
	case 'y':
		*o = typed(p, &twice, false);
		break;
	case 'w':
		*o = typed(p, &word, false);
		break;
	case 'q':
		*o = part(p);
		break;
	case 'p':
	case 'n':
		*o = predicate(p, letter == 'n');
		break;
	case 'm':
		*o = memory(p, i, i->space == SPACE_SHARED && !(i->op == OP_COPY && i->n == 1));
		break;
	case 'a':
		*o = address(p, i);
		break;
	case 'i':
		*o = integer(p);
		break;
	default: /* a label */
		i->label = strcpy(ptx_keep(p, strlen(p->token) + 1), p->token);
		return;
	}
	i->n++;
	if (strchr("OSE", letter))
		second(p, i);
}

void ptx_operands(struct ptx *p, struct instruction *i, const char *form)
{
	const char *f;

	ptx_next(p);
	for (f = form; *f; f++) {
		if (*f == '?')
			continue;
		if (ptx_is(p, ";")) {
			if (f[1] == '?')
				break;
			ptx_stop(p, "an operand is missing");
		}
		if (f != form) {
			if (!ptx_is(p, ","))
				ptx_stop(p, "no ,");
			ptx_next(p);
		}
		one(p, i, *f);
		ptx_next(p);
	}
	if (!ptx_is(p, ";"))
		ptx_stop(p, "too many operands");
}
