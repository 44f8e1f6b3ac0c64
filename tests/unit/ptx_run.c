/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "draw.h"
#include "ptx_private.h"

struct thread {
	uint64_t *registers;
	uint8_t *local;
	uint32_t pc, id[3];
	bool waits, over;
};

struct block {
	const struct ptx_launch *launch;
	uint8_t *shared;
	uint32_t dynamic; /* where dynamic shared memory begins */
	uint32_t id[3];
};

static uint64_t cut(struct type type, uint64_t v)
{
	return type.bits == 64 ? v : v & ((UINT64_C(1) << type.bits) - 1);
}

/* Extends V to 64 bits. */
static uint64_t widen(struct type type, uint64_t v)
{
	uint64_t sign = UINT64_C(1) << (type.bits - 1);

	v = cut(type, v);
	return type.kind == 's' ? (v ^ sign) - sign : v;
}

static double to_float(struct type type, uint64_t v)
{
	uint32_t half = (uint32_t)v;
	double d;
	float f;

	memcpy(&f, &half, sizeof(f));
	memcpy(&d, &v, sizeof(d));
	return type.bits == 32 ? (double)f : d;
}

static uint64_t from_float(struct type type, double d)
{
	float f = (float)d;
	uint32_t half;
	uint64_t v;

	memcpy(&half, &f, sizeof(f));
	memcpy(&v, &d, sizeof(d));
	return type.bits == 32 ? half : v;
}

/* The sum, difference or product of two 32-bit floats, computed as doubles and rounded once
 * more, equals the 32-bit result: a double has more than twice a float's bits plus two
 * (Figueroa, 1995). */
static uint64_t float_result(struct ptx *p, enum op op, struct type type, double a, double b)
{
	switch (op) {
	case OP_ADD:
		return from_float(type, a + b);
	case OP_SUB:
		return from_float(type, a - b);
	case OP_MUL:
		return from_float(type, a * b);
	default:
		ptx_stop(p, "not with floats");
	}
}

static uint64_t shifted(struct type type, enum op op, uint64_t a, uint64_t by)
{
	if (op == OP_SHL)
		return by < type.bits ? a << by : 0;
	if (type.kind == 's')
		return (uint64_t)((int64_t)a >> (by < 63 ? by : 63));
	return by < type.bits ? a >> by : 0;
}

static uint64_t result(struct ptx *p, const struct instruction *i, const uint64_t *v)
{
	uint64_t a = widen(i->type, v[0]), b = widen(i->type, v[1]);

	if (i->type.kind == 'f' && i->op != OP_MOV)
		return float_result(p, i->op, i->type, to_float(i->type, v[0]),
				    to_float(i->type, v[1]));
	switch (i->op) {
	case OP_ADD:
		return a + b;
	case OP_SUB:
		return a - b;
	case OP_MUL:
		return a * b;
	case OP_MAD:
		return a * b + v[2];
	case OP_DIV:
		if (b == 0)
			ptx_stop(p, "division by 0");
		return i->type.kind == 's' ? (uint64_t)((int64_t)a / (int64_t)b) : a / b;
	case OP_AND:
		return a & b;
	case OP_OR:
		return a | b;
	case OP_XOR:
		return a ^ b;
	case OP_NOT:
		return ~a;
	case OP_SHL:
	case OP_SHR:
		return shifted(i->type, i->op, a, (uint32_t)v[1]);
	case OP_SHF: /* .l.wrap: the upper half of b:a after a shift to the left */
		return ((b << 32 | a) << (v[2] & 31)) >> 32;
	default:
		return v[0];
	}
}

static bool compare(const struct instruction *i, uint64_t x, uint64_t y)
{
	uint64_t a = widen(i->type, x), b = widen(i->type, y);
	int order = i->type.kind == 's' ? ((int64_t)a > (int64_t)b) - ((int64_t)a < (int64_t)b)
					: (a > b) - (a < b);
	bool unordered = false;

	if (i->type.kind == 'f') {
		double f = to_float(i->type, x), g = to_float(i->type, y);

		order = (f > g) - (f < g);
		unordered = f != f || g != g;
	}
	switch (i->compare) {
	case LT:
		return !unordered && order < 0;
	case LE:
		return !unordered && order <= 0;
	case GT:
		return !unordered && order > 0;
	case GE:
		return !unordered && order >= 0;
	case EQ:
		return !unordered && order == 0;
	case NE:
		return !unordered && order != 0;
	default: /* GTU */
		return unordered || order > 0;
	}
}

static uint64_t convert(struct ptx *p, const struct instruction *i, uint64_t v)
{
	if (i->type.kind == 'f')
		ptx_stop(p, "a conversion of a float");
	v = widen(i->type, v);
	if (i->to.kind != 'f')
		return v;
	return from_float(i->to, i->type.kind == 's' ? (double)(int64_t)v : (double)v);
}

static uint64_t special(const struct block *b, const struct thread *t, uint64_t which)
{
	const uint32_t *const sets[] = {t->id, b->launch->block, b->id, b->launch->grid};
	struct timespec now;

	if (which < TIME)
		return sets[which / 3][which % 3];
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t get(const struct block *b, const struct thread *t, const struct operand *o)
{
	switch (o->kind) {
	case REGISTER:
		return t->registers[o->value] + (uint64_t)o->offset;
	case SPECIAL:
		return special(b, t, o->value);
	case LOCAL:
		return (uint64_t)(uintptr_t)t->local + o->value + (uint64_t)o->offset;
	case DYNAMIC:
		return b->dynamic + (uint64_t)o->offset;
	default:
		return o->value + (uint64_t)o->offset;
	}
}

static uint8_t *address(const struct block *b, enum space space, uint64_t at)
{
	if (space == SPACE_PARAM)
		return (uint8_t *)(uintptr_t)b->launch->params + at;
	if (space == SPACE_SHARED)
		return b->shared + at;
	return (uint8_t *)(uintptr_t)at;
}

static uint64_t load(const struct instruction *i, const uint8_t *from)
{
	uint64_t v = 0;

	if (i->seen_by_others && i->type.bits == 32)
		return __atomic_load_n((const uint32_t *)from, __ATOMIC_RELAXED);
	memcpy(&v, from, i->type.bits / 8);
	return v;
}

static void store(const struct instruction *i, uint8_t *to, uint64_t v)
{
	if (i->seen_by_others && i->type.bits == 64)
		__atomic_store_n((uint64_t *)to, v, __ATOMIC_RELAXED);
	else
		memcpy(to, &v, i->type.bits / 8);
}

static void step(struct ptx *p, const struct block *b, struct thread *t)
{
	const struct instruction *i = &p->code[t->pc++];
	const struct operand *o = i->operands;
	uint64_t v[3] = {0}, r;
	uint32_t k, first = i->op == OP_ST ? 0 : 1;

	if (i->guarded && (t->registers[i->guard] & 1) == i->negated)
		return;
	for (k = 0; k + first < i->n && k < 3; k++)
		v[k] = get(b, t, &o[k + first]);
	switch (i->op) {
	case OP_BRA:
		t->pc = (uint32_t)o[0].value;
		return;
	case OP_BAR:
		t->waits = true;
		return;
	case OP_RET:
		t->over = true;
		return;
	case OP_ST:
		store(i, address(b, i->space, v[0]), v[1]);
		return;
	case OP_LD:
		r = load(i, address(b, i->space, v[0]));
		break;
	case OP_SETP:
		r = compare(i, v[0], v[1]);
		break;
	case OP_CVT:
		r = cut(i->to, convert(p, i, v[0]));
		break;
	default:
		r = result(p, i, v);
		r = i->wide ? r : cut(i->type, r);
		break;
	}
	t->registers[o[0].value] = r;
}

/* Runs each thread up to the next barrier or its end, and then again. A random thread goes
 * first. */
static void run_block(struct ptx *p, const struct block *b, struct thread *threads, uint32_t n)
{
	uint32_t k, left = n;

	while (left > 0) {
		uint32_t first = (uint32_t)draw(n);

		for (k = 0, left = 0; k < n; k++) {
			struct thread *t = &threads[(first + k) % n];

			for (t->waits = false; !t->waits && !t->over;)
				step(p, b, t);
			left += !t->over;
		}
	}
}

static void place_in(const uint32_t *size, uint64_t n, uint32_t *id)
{
	id[0] = (uint32_t)(n % size[0]);
	id[1] = (uint32_t)(n / size[0] % size[1]);
	id[2] = (uint32_t)(n / size[0] / size[1]);
}

void ptx_run(struct ptx *p, const struct ptx_launch *l)
{
	uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2], i, other, swap;
	uint32_t n = l->block[0] * l->block[1] * l->block[2], k;
	size_t each = p->n_registers + (p->local + 7) / 8 + 1;
	uint64_t *order = malloc(blocks * sizeof(*order)), *memory = malloc(n * each * 8);
	struct thread *threads = malloc(n * sizeof(*threads));
	struct block b = {
		.launch = l,
		.shared = malloc(p->shared + l->shared + 1),
		.dynamic = p->shared,
	};

	for (i = 0; i < blocks; i++)
		order[i] = i;
	for (i = 0; i < blocks; i++) {
		other = i + draw(blocks - i);
		swap = order[i];
		order[i] = order[other];
		order[other] = swap;
		place_in(l->grid, order[i], b.id);
		if (l->begins)
			l->begins(l->data, i);
		/* memory that nothing has written holds arbitrary bytes */
		memset(memory, (int)draw(256), n * each * 8);
		memset(b.shared, (int)draw(256), p->shared + l->shared);
		for (k = 0; k < n; k++) {
			uint64_t *registers = memory + k * each;

			threads[k] = (struct thread){
				.registers = registers,
				.local = (uint8_t *)(registers + p->n_registers),
			};
			place_in(l->block, k, threads[k].id);
		}
		run_block(p, &b, threads, n);
	}
	free(order);
	free(memory);
	free(threads);
	free(b.shared);
}
