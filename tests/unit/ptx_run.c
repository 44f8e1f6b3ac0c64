/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "draw.h"
#include "ptx_private.h"

static uint64_t special(const struct block *b, const struct thread *t, uint64_t which)
{
	const uint32_t *const sets[] = {t->id, b->launch->block, b->id, b->launch->grid};
	struct timespec now;

	if (which < TIME)
		return sets[which / 3][which % 3];
	if (which == LANE)
		return t->lane;
	if (which == SHARED_AT)
		return (uint64_t)(uintptr_t)b->shared;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* An operand that is neither a register nor a value. */
static uint64_t get_other(const struct block *b, const struct thread *t, const struct operand *o)
{
	switch (o->kind) {
	case SPECIAL:
		return special(b, t, o->value);
	case LOCAL:
		return (uint64_t)(uintptr_t)t->local + o->value + (uint64_t)o->offset;
	case PARAM:
		return (uint64_t)(uintptr_t)b->launch->params + o->value + (uint64_t)o->offset;
	default:
		return b->dynamic + (uint64_t)o->offset;
	}
}

static inline uint64_t get(const struct block *b, const struct thread *t, const struct operand *o)
{
	if (o->kind == REGISTER)
		return t->registers[o->value] + (uint64_t)o->offset;
	return o->kind == VALUE ? o->value + (uint64_t)o->offset : get_other(b, t, o);
}

static uint8_t *address(const struct block *b, bool shared, uint64_t at)
{
	return shared ? b->shared + at : (uint8_t *)(uintptr_t)at;
}

static uint64_t load(const struct instruction *i, const uint8_t *from)
{
	uint64_t v = 0;

	if (i->seen_by_others && i->type.bits == 32)
		return __atomic_load_n((const uint32_t *)from, __ATOMIC_RELAXED);
	memcpy(&v, from, i->type.bits / 8);
	return ptx_widen(&i->type, v); /* the register may have more bits */
}

static void store(const struct instruction *i, uint8_t *to, uint64_t v)
{
	if (i->seen_by_others && i->type.bits == 64)
		__atomic_store_n((uint64_t *)to, v, __ATOMIC_RELAXED);
	else
		memcpy(to, &v, i->type.bits / 8);
}

static void load_all(const struct block *b, struct thread *t, const struct instruction *i)
{
	const uint8_t *from = address(b, i->shared, get(b, t, &i->operands[i->width]));
	uint32_t k;

	for (k = 0; k < i->width; k++)
		t->registers[i->operands[k].value] = load(i, from + k * i->type.bits / 8);
}

static void store_all(const struct block *b, struct thread *t, const struct instruction *i)
{
	uint8_t *to = address(b, i->shared, get(b, t, &i->operands[0]));
	uint32_t k;

	for (k = 0; k < i->width; k++)
		store(i, to + k * i->type.bits / 8, get(b, t, &i->operands[k + 1]));
}

/* atom has a destination before its address, red has none. No other thread runs meanwhile. */
static void change(struct ptx *p, const struct block *b, struct thread *t,
		   const struct instruction *i)
{
	uint32_t first = i->op == OP_ATOM;
	uint8_t *at = address(b, i->shared, get(b, t, &i->operands[first]));
	uint64_t old = load(i, at), v[2] = {0};
	uint32_t k;

	for (k = 0; k + first + 1 < i->n && k < 2; k++)
		v[k] = get(b, t, &i->operands[first + 1 + k]);
	store(i, at, ptx_atom(p, i, old, v[0], v[1]));
	if (first)
		t->registers[i->operands[0].value] = old;
}

/* Waits for the other threads of the block or the warp; ptx_meet() goes on. */
static void wait_at(const struct block *b, struct thread *t, const struct instruction *i)
{
	const bool result = i->op == OP_SHFL || i->op == OP_VOTE ||
			    (i->op == OP_BAR && i->how != HOW_NONE && i->how != HOW_WARP);
	uint32_t k, first = result ? 1 : 0;

	for (k = 0; k + first < i->n && k < 4; k++)
		t->given[k] = get(b, t, &i->operands[k + first]);
	t->state = (i->op == OP_BAR && i->how != HOW_WARP) || i->op == OP_BARRIER ? AT_BARRIER
										  : AT_WARP;
}

static void step(struct ptx *p, const struct block *b, struct thread *t)
{
	const struct instruction *i = &p->code[t->pc++];
	const struct operand *o = i->operands;
	uint64_t v[4] = {0}, r;
	uint32_t k;

	if (i->guarded && (t->registers[i->guard] & 1) == i->negated)
		return;
	switch (i->op) {
	case OP_BRA:
		t->pc = (uint32_t)o[0].value;
		return;
	case OP_BAR:
	case OP_BARRIER:
	case OP_SHFL:
	case OP_VOTE:
		wait_at(b, t, i);
		return;
	case OP_MEMBAR:
	case OP_FENCE:
		return;
	case OP_RET:
	case OP_EXIT:
		t->state = OVER;
		return;
	case OP_ST:
		store_all(b, t, i);
		return;
	case OP_LD:
		load_all(b, t, i);
		return;
	case OP_ATOM:
	case OP_RED:
		change(p, b, t, i);
		return;
	default:
		break;
	}
	for (k = 0; k < i->sources; k++)
		v[k] = get(b, t, &o[k + 1]);
	if (i->op == OP_SETP) {
		r = ptx_compare(i, v[0], v[1]);
	} else if (i->op == OP_CVT) {
		r = ptx_cut(&i->to, ptx_convert(p, i, v[0]));
	} else {
		r = ptx_result(p, i, v);
		r = i->wide ? r : ptx_cut(&i->type, r);
	}
	t->registers[o[0].value] = r;
}

/* Executes up to MOST instructions of T, which runs, but not beyond one at which it waits for
 * others, or its end. */
static void run_thread(struct ptx *p, const struct block *b, struct thread *t, uint64_t most)
{
	uint64_t *const r = t->registers;
	uint32_t pc = t->pc, half;
	uint64_t v = 0, x, y;

	for (; most > 0; most--) {
		const struct quick q = p->quick[pc];

		if (q.does == DOES_MORE) {
			t->pc = pc;
			step(p, b, t);
			if (t->state != RUNS)
				return;
			pc = t->pc;
			continue;
		}
		pc++;
		if (q.guarded && (r[q.guard] & 1) == q.negated)
			continue;
		x = r[q.from[0]];
		y = r[q.from[1]];
		switch ((enum does)q.does) {
		case DOES_BRANCH:
			pc = q.to;
			continue;
		case DOES_STORE_32:
			half = (uint32_t)r[q.from[2]];
			memcpy((void *)(uintptr_t)(x + y), &half, sizeof(half));
			continue;
		case DOES_STORE_64:
			memcpy((void *)(uintptr_t)(x + y), &r[q.from[2]], sizeof(v));
			continue;
		case DOES_LOAD_32:
			memcpy(&half, (const void *)(uintptr_t)(x + y), sizeof(half));
			v = half;
			break;
		case DOES_LOAD_64:
			memcpy(&v, (const void *)(uintptr_t)(x + y), sizeof(v));
			break;
		case DOES_ADD:
			v = x + y;
			break;
		case DOES_SUB:
			v = x - y;
			break;
		case DOES_MUL:
			v = ptx_widen(&q.type, x) * ptx_widen(&q.type, y);
			break;
		case DOES_MAD:
			v = ptx_widen(&q.type, x) * ptx_widen(&q.type, y) + r[q.from[2]];
			break;
		case DOES_AND:
			v = x & y;
			break;
		case DOES_OR:
			v = x | y;
			break;
		case DOES_XOR:
			v = x ^ y;
			break;
		case DOES_SHIFT_LEFT:
			v = (uint32_t)y < q.type.bits ? x << (uint32_t)y : 0;
			break;
		case DOES_COMPARE:
			v = ptx_compares((enum compare)q.compare, ptx_order(&q.type, x, y), false);
			break;
		default: /* DOES_MOVE */
			v = x;
			break;
		}
		r[q.to] = v & q.cut;
	}
	t->pc = pc;
}

/* Registers of a thread: those of the text, and constants. */
static uint32_t registers_of(const struct ptx *p)
{
	return p->n_registers + p->n_constants;
}

/* Words of a thread's registers and local memory. */
static size_t words_of(const struct ptx *p)
{
	return registers_of(p) + (p->local + 7) / 8 + 1;
}

static void place_in(const uint32_t *size, uint64_t n, uint32_t *id)
{
	id[0] = (uint32_t)(n % size[0]);
	id[1] = (uint32_t)(n / size[0] % size[1]);
	id[2] = (uint32_t)(n / size[0] / size[1]);
}

/* The most steps of a thread before others of the grid go on, if its blocks run at a time. */
#define TURN 50u
/* The most steps of a thread before the launch may pause. */
#define PAUSE 200u

static uint64_t most_steps(const struct ptx_launch *l)
{
	if (l->together)
		return TURN;
	return l->pauses ? PAUSE : UINT64_MAX;
}

/* Runs each thread of B up to where it waits for others, its end, or the end of its turn. A random
 * thread goes first. Whether any has not ended. */
static bool run_threads(struct ptx *p, struct block *b)
{
	const uint32_t first = (uint32_t)draw(b->n);
	bool left = false, runs = false;
	uint32_t k;

	for (k = 0; k < b->n; k++) {
		struct thread *t = &b->threads[(first + k) % b->n];

		if (t->state == RUNS)
			run_thread(p, b, t, most_steps(b->launch));
		left |= t->state != OVER;
		runs |= t->state == RUNS;
		if (b->launch->pauses)
			b->launch->pauses(b->launch->data);
	}
	if (left && !runs && !ptx_meet(p, b->threads, b->n))
		ptx_stop(p, "threads that wait for each other");
	return left;
}

static void make_block(struct ptx *p, const struct ptx_launch *l, struct block *b)
{
	const size_t each = words_of(p);

	*b = (struct block){
		.launch = l,
		.shared = malloc(p->shared + l->shared + 1),
		.dynamic = p->shared,
		.n = l->block[0] * l->block[1] * l->block[2],
	};
	b->memory = malloc(b->n * each * 8);
	b->threads = malloc(b->n * sizeof(*b->threads));
}

static void free_block(struct block *b)
{
	free(b->memory);
	free(b->threads);
	free(b->shared);
}

/* Makes B the block with this number. */
static void begin_block(struct ptx *p, struct block *b, uint64_t number)
{
	const size_t each = words_of(p);
	uint32_t k;

	place_in(b->launch->grid, number, b->id);
	/* memory that nothing has written holds arbitrary bytes */
	memset(b->memory, (int)draw(256), b->n * each * 8);
	memset(b->shared, (int)draw(256), p->shared + b->launch->shared);
	for (k = 0; k < b->n; k++) {
		uint64_t *registers = b->memory + k * each;

		b->threads[k] = (struct thread){
			.registers = registers,
			.local = (uint8_t *)(registers + registers_of(p)),
			.lane = k % WARP,
		};
		memcpy(registers + p->n_registers, p->constants, p->n_constants * sizeof(uint64_t));
		place_in(b->launch->block, k, b->threads[k].id);
	}
}

/* All blocks at a time, in turns. */
static void run_together(struct ptx *p, const struct ptx_launch *l, uint64_t n)
{
	struct block *blocks = malloc(n * sizeof(*blocks));
	bool left = true;
	uint64_t i;

	for (i = 0; i < n; i++) {
		make_block(p, l, &blocks[i]);
		begin_block(p, &blocks[i], i);
	}
	while (left)
		for (i = 0, left = false; i < n; i++)
			left |= run_threads(p, &blocks[i]);
	for (i = 0; i < n; i++)
		free_block(&blocks[i]);
	free(blocks);
}

/* One block after another, in random order. */
static void run_in_order(struct ptx *p, const struct ptx_launch *l, uint64_t n)
{
	uint64_t *order = malloc(n * sizeof(*order)), i, other, swap;
	struct block b;

	make_block(p, l, &b);
	for (i = 0; i < n; i++)
		order[i] = i;
	for (i = 0; i < n; i++) {
		other = i + draw(n - i);
		swap = order[i];
		order[i] = order[other];
		order[other] = swap;
		if (l->begins)
			l->begins(l->data, i);
		begin_block(p, &b, order[i]);
		while (run_threads(p, &b))
			;
	}
	free(order);
	free_block(&b);
}

static void run_one(struct ptx *p, const struct ptx_launch *l, uint64_t number)
{
	struct block b;

	make_block(p, l, &b);
	begin_block(p, &b, number);
	while (run_threads(p, &b))
		;
	free_block(&b);
}

void ptx_run(struct ptx *p, const struct ptx_launch *l)
{
	const uint64_t n = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];

	if (l->only)
		run_one(p, l, *l->only);
	else if (l->together)
		run_together(p, l, n);
	else
		run_in_order(p, l, n);
}
