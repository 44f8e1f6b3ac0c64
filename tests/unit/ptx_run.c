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

static void load_all(const struct block *b, struct thread *t, const struct instruction *i)
{
	const uint8_t *from = address(b, i->space, get(b, t, &i->operands[i->width]));
	uint32_t k;

	for (k = 0; k < i->width; k++)
		t->registers[i->operands[k].value] = load(i, from + k * i->type.bits / 8);
}

static void store_all(const struct block *b, struct thread *t, const struct instruction *i)
{
	uint8_t *to = address(b, i->space, get(b, t, &i->operands[0]));
	uint32_t k;

	for (k = 0; k < i->width; k++)
		store(i, to + k * i->type.bits / 8, get(b, t, &i->operands[k + 1]));
}

/* atom has a destination before its address, red has none. No other thread runs meanwhile. */
static void change(struct ptx *p, const struct block *b, struct thread *t,
		   const struct instruction *i)
{
	uint32_t first = i->op == OP_ATOM;
	uint8_t *at = address(b, i->space, get(b, t, &i->operands[first]));
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

/* Executes what does more than to compute a result. Whether it was that. */
static bool act(struct ptx *p, const struct block *b, struct thread *t, const struct instruction *i)
{
	switch (i->op) {
	case OP_BRA:
		t->pc = (uint32_t)i->operands[0].value;
		return true;
	case OP_BAR:
	case OP_BARRIER:
	case OP_SHFL:
	case OP_VOTE:
		wait_at(b, t, i);
		return true;
	case OP_MEMBAR:
	case OP_FENCE:
		return true;
	case OP_RET:
	case OP_EXIT:
		t->state = OVER;
		return true;
	case OP_ST:
		store_all(b, t, i);
		return true;
	case OP_LD:
		load_all(b, t, i);
		return true;
	case OP_ATOM:
	case OP_RED:
		change(p, b, t, i);
		return true;
	default:
		return false;
	}
}

static void step(struct ptx *p, const struct block *b, struct thread *t)
{
	const struct instruction *i = &p->code[t->pc++];
	const struct operand *o = i->operands;
	uint64_t v[3] = {0}, r;
	uint32_t k;

	if (i->guarded && (t->registers[i->guard] & 1) == i->negated)
		return;
	if (act(p, b, t, i))
		return;
	for (k = 0; k + 1 < i->n && k < 3; k++)
		v[k] = get(b, t, &o[k + 1]);
	switch (i->op) {
	case OP_SETP:
		r = ptx_compare(i, v[0], v[1]);
		break;
	case OP_CVT:
		r = ptx_cut(i->to, ptx_convert(p, i, v[0]));
		break;
	default:
		r = ptx_result(p, i, v);
		r = i->wide ? r : ptx_cut(i->type, r);
		break;
	}
	t->registers[o[0].value] = r;
}

/* Runs each thread up to where it waits for others, or its end, and then again. A random thread
 * goes first. */
static void run_block(struct ptx *p, const struct block *b, struct thread *threads, uint32_t n)
{
	uint32_t k, left = n;

	while (left > 0) {
		uint32_t first = (uint32_t)draw(n);

		for (k = 0, left = 0; k < n; k++) {
			struct thread *t = &threads[(first + k) % n];

			while (t->state == RUNS)
				step(p, b, t);
			left += t->state != OVER;
		}
		if (left > 0 && !ptx_meet(p, threads, n))
			ptx_stop(p, "threads that wait for each other");
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
				.lane = k % WARP,
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
