/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ptx_private.h"

/* Random numbers for choices that the ISA leaves open: different in each launch, the same in each
 * run. Knuth's generator for MMIX. */
static uint64_t draw(uint64_t below)
{
	static uint64_t seed = 1;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 20) % below;
}

static uint64_t now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Lanes of a warp that are before LANE. */
static uint32_t before(uint32_t lane)
{
	return (UINT32_C(1) << lane) - 1;
}

/* The GPU has four processors, of which each has a clock of 1 GHz. */
static uint64_t special(const struct block *b, const struct thread *t, uint64_t which)
{
	const uint32_t *const sets[] = {t->id, b->launch->block, b->id, b->launch->grid};
	const uint32_t lane = UINT32_C(1) << t->lane;

	if (which < TIME)
		return sets[which / 3][which % 3];
	switch (which) {
	case TIME:
	case CLOCK:
		return now();
	case TIME_HIGH:
	case CLOCK_HIGH:
		return now() >> 32;
	case LANE:
		return t->lane;
	case WARP_NUMBER:
		return (uint64_t)(t - b->threads) / WARP;
	case WARPS:
		return 2048 / WARP;
	case PROCESSOR:
		return b->id[0] % 4;
	case PROCESSORS:
		return 4;
	case LANES_EQ:
		return lane;
	case LANES_LE:
		return before(t->lane) | lane;
	case LANES_LT:
		return before(t->lane);
	case LANES_GE:
		return ~before(t->lane) & UINT32_MAX;
	case LANES_GT:
		return ~(before(t->lane) | lane) & UINT32_MAX;
	case SHARED_DYNAMIC:
		return b->launch->shared;
	case SHARED_ALL:
		return b->dynamic + b->launch->shared;
	case SHARED_AT:
		return (uint64_t)(uintptr_t)b->shared;
	case WORKSPACE:
		return (uint64_t)(uintptr_t)b->workspace;
	case WORKSPACE_HIGH:
		return (uint64_t)(uintptr_t)b->workspace >> 32;
	default: /* GRID, ZERO */
		return 0;
	}
}

/* Returns the value of an operand that is neither a register nor a literal. */
static uint64_t get_other(const struct block *b, const struct thread *t, const struct operand *o)
{
	switch (o->kind) {
	case SPECIAL:
		return special(b, t, o->value) & (o->bits == 32 ? UINT32_MAX : UINT64_MAX);
	case LOCAL:
		return (uint64_t)(uintptr_t)t->local + o->value + (uint64_t)o->offset;
	case PARAM:
		return (uint64_t)(uintptr_t)b->launch->params + o->value + (uint64_t)o->offset;
	case INVERTED:
		return ~t->registers[o->value] & 1;
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

	if (i->flags & FLAG_VOLATILE && i->type.bits == 32)
		v = __atomic_load_n((const uint32_t *)from, __ATOMIC_RELAXED);
	else
		memcpy(&v, from, i->type.bits * i->type.lanes / 8);
	return ptx_widen(&i->type, v); /* the register may have more bits */
}

static void store(const struct instruction *i, uint8_t *to, uint64_t v)
{
	if (i->flags & FLAG_VOLATILE && i->type.bits == 64)
		__atomic_store_n((uint64_t *)to, v, __ATOMIC_RELAXED);
	else
		memcpy(to, &v, i->type.bits * i->type.lanes / 8);
}

/* Writes V to the register that O names, of whose bits it takes no more. */
static void set_register(struct thread *t, const struct operand *o, uint64_t v)
{
	t->registers[o->value] =
		o->bits == 0 || o->bits == 64 ? v : v & ((UINT64_C(1) << o->bits) - 1);
}

static void load_all(const struct block *b, struct thread *t, const struct instruction *i)
{
	const uint8_t *from = address(b, i->shared, get(b, t, &i->operands[i->width]));
	uint32_t k;

	for (k = 0; k < i->width; k++)
		set_register(t, &i->operands[k], load(i, from + k * i->type.bits / 8));
}

static void store_all(const struct block *b, struct thread *t, const struct instruction *i)
{
	uint8_t *to = address(b, i->shared, get(b, t, &i->operands[0]));
	uint32_t k;

	for (k = 0; k < i->width; k++)
		store(i, to + k * i->type.bits / 8, get(b, t, &i->operands[k + 1]));
}

/* cp.async: at once. What is beyond the bytes of the source becomes 0. */
static void copy(const struct block *b, const struct thread *t, const struct instruction *i)
{
	uint8_t *to = b->shared + get(b, t, &i->operands[0]);
	const uint8_t *from = (const uint8_t *)(uintptr_t)get(b, t, &i->operands[1]);
	const uint64_t n = i->operands[2].value & 31;
	uint64_t given = i->n > 3 ? get(b, t, &i->operands[3]) : n;

	given = given < n ? given : n;
	memcpy(to, from, given);
	memset(to + given, 0, n - given);
}

static bool is_in(const void *at, const void *begin, uint64_t bytes)
{
	return (uintptr_t)at - (uintptr_t)begin < bytes;
}

static bool is_shared(const struct block *b, const void *at)
{
	return is_in(at, b->shared, (uint64_t)b->dynamic + b->launch->shared);
}

/* isspacep. Constants are global memory here, and a program cannot tell that they are none there.
 */
static bool is_of_space(const struct ptx *p, const struct block *b, const struct thread *t,
			enum space space, const void *at)
{
	const bool local = is_in(at, t->local, p->local), shared = is_shared(b, at);

	switch (space) {
	case SPACE_SHARED:
		return shared;
	case SPACE_LOCAL:
		return local;
	case SPACE_PARAM:
		return is_in(at, b->launch->params, p->params_end);
	case SPACE_CONST:
		return false;
	default:
		return !local && !shared && !is_in(at, b->launch->params, p->params_end);
	}
}

/* atom has a destination before its address, red has none. No other thread runs meanwhile. */
static void change(struct ptx *p, const struct block *b, struct thread *t,
		   const struct instruction *i)
{
	uint32_t first = i->op == OP_ATOM;
	uint8_t *at = address(b, i->shared, get(b, t, &i->operands[first]));
	struct instruction as = *i;
	uint64_t old = load(i, at), v[2] = {0};
	uint32_t k;

	for (k = 0; k + first + 1 < i->n && k < 2; k++)
		v[k] = get(b, t, &i->operands[first + 1 + k]);
	/* sums of floats in global memory have no subnormal numbers */
	if (i->type.kind == 'f' && i->type.bits == 32 && !is_shared(b, at))
		as.flags |= FLAG_FLUSHES;
	store(i, at, ptx_atom(p, &as, old, v[0], v[1]));
	if (first)
		set_register(t, &i->operands[0], old);
}

static bool is_result_first(const struct instruction *i)
{
	if (i->op == OP_BAR)
		return i->how != HOW_NONE && i->how != HOW_WARP && i->how != HOW_ARRIVE;
	return true;
}

/* Waits for the other threads of the block or the warp; ptx_meet() goes on. */
static void wait_at(struct block *b, struct thread *t, const struct instruction *i)
{
	uint32_t k, first = is_result_first(i) ? 1 : 0;

	for (k = 0; k + first < i->n && k < 4; k++)
		t->given[k] = get(b, t, &i->operands[k + first]);
	if (i->op == OP_BAR && i->how == HOW_ARRIVE) {
		b->arrived[t->given[0] % BARRIERS]++;
		return;
	}
	t->state = i->op == OP_BAR && i->how != HOW_WARP ? AT_BARRIER : AT_WARP;
}

/* setp writes p, and the opposite to q; or what it finds of each of two halves. */
static void compare(struct ptx *p, struct thread *t, const struct instruction *i, const uint64_t *v)
{
	struct instruction one = *i;
	bool first, other;

	one.type.lanes = 1;
	one.type.mask = i->type.lanes == 2 ? 0xffff : i->type.mask;
	first = ptx_result(p, &one, v) & 1;
	if (i->type.lanes == 2) {
		const uint64_t upper[4] = {v[0] >> 16, v[1] >> 16, v[2], 0};

		other = ptx_result(p, &one, upper) & 1;
	} else {
		const bool is = ptx_compare(&one, v[0], v[1]), c = v[2] & 1;

		other = i->how == HOW_AND  ? !is && c
			: i->how == HOW_OR ? !is || c
					   : !is ^ (i->how == HOW_XOR && c);
	}
	t->registers[i->operands[0].value] = first;
	if (i->paired)
		t->registers[i->second] = other;
}

/* Memory of alloca lives until stackrestore, or the thread's end. */
static uint64_t allocate(struct ptx *p, struct thread *t, const struct instruction *i,
			 uint64_t size, uint64_t align)
{
	const uint64_t base = (uint64_t)(uintptr_t)t->local + p->local - ALLOCA_MOST;
	uint64_t at = base + t->stack;

	align = align ? align : 8;
	at = (at + align - 1) / align * align;
	if (at - base > ALLOCA_MOST || size > ALLOCA_MOST - (at - base)) {
		p->begin = i->at;
		ptx_stop(p, "alloca of more than 4096 bytes");
	}
	t->stack = at - base + size;
	return at;
}

static void compute(struct ptx *p, const struct block *b, struct thread *t,
		    const struct instruction *i)
{
	const struct operand *o = i->operands;
	uint64_t v[4] = {0}, r;
	uint32_t k;

	for (k = 0; k < i->sources; k++)
		v[k] = get(b, t, &o[k + 1]);
	if (i->op == OP_SETP) {
		compare(p, t, i, v);
		return;
	}
	if (i->op == OP_CARRIES)
		r = ptx_carry(i, v, &t->carry);
	else if (i->op == OP_ISSPACEP)
		r = is_of_space(p, b, t, i->space, (const void *)(uintptr_t)v[0]);
	else if (i->op == OP_ACTIVEMASK)
		r = t->together;
	else if (i->op == OP_ALLOCA)
		r = allocate(p, t, i, v[0], v[1]);
	else if (i->op == OP_STACKSAVE)
		r = t->stack;
	else
		r = ptx_result(p, i, v);
	t->registers[o[0].value] = r & i->cut;
}

static void print(const struct block *b, struct thread *t, const struct instruction *i)
{
	const struct ptx_launch *l = b->launch;
	const void *format = (const void *)(uintptr_t)get(b, t, &i->operands[1]);
	const void *arguments = (const void *)(uintptr_t)get(b, t, &i->operands[2]);

	set_register(t, &i->operands[0],
		     (uint64_t)(l->prints ? l->prints(l->data, format, arguments) : -2));
}

/* The texts come from the GPU kernel, and may not be terminated. */
static void fail(struct ptx *p, const struct block *b, const struct thread *t,
		 const struct instruction *i)
{
	char text[1024];
	const char *said[4];
	uint32_t k;

	for (k = 0; k < 4; k++)
		said[k] = (const char *)(uintptr_t)get(b, t, &i->operands[k]);
	if (b->launch->asserts) {
		snprintf(text, sizeof(text),
			 "%.200s:%u: %.200s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion "
			 "`%.200s` failed.\n",
			 said[1], (uint32_t)(uintptr_t)said[2], said[3], b->id[0], b->id[1],
			 b->id[2], t->id[0], t->id[1], t->id[2], said[0]);
		b->launch->asserts(b->launch->data, text);
	}
	p->begin = i->at;
	ptx_stop(p, "an assertion that failed");
}

static void step(struct ptx *p, struct block *b, struct thread *t)
{
	const struct instruction *i = &p->code[t->pc++];

	if (i->guarded && (t->registers[i->guard] & 1) == i->negated)
		return;
	switch (i->op) {
	case OP_BRA:
		t->pc = (uint32_t)i->operands[0].value;
		return;
	case OP_BAR:
	case OP_SHFL:
	case OP_VOTE:
	case OP_MATCH:
	case OP_REDUX:
	case OP_ELECT:
		wait_at(b, t, i);
		return;
	case OP_NOTHING:
		return;
	case OP_TRAP:
		p->begin = i->at;
		ptx_stop(p, "a trap");
	case OP_PRINT:
		print(b, t, i);
		return;
	case OP_ASSERT:
		fail(p, b, t, i);
		return;
	case OP_RET:
	case OP_EXIT:
		t->state = OVER;
		return;
	case OP_STACKRESTORE:
		t->stack = get(b, t, &i->operands[0]);
		return;
	case OP_ST:
		store_all(b, t, i);
		return;
	case OP_LD:
		load_all(b, t, i);
		return;
	case OP_COPY:
		copy(b, t, i);
		return;
	case OP_ATOM:
	case OP_RED:
		change(p, b, t, i);
		return;
	default:
		compute(p, b, t, i);
		return;
	}
}

/* ptx_widen() and ptx_order() of a prepared instruction. */
static inline uint64_t widen(const struct quick *q, uint64_t v)
{
	return ((v & q->mask) ^ q->sign) - q->sign;
}

static inline int order(const struct quick *q, uint64_t x, uint64_t y)
{
	const uint64_t top = q->sign ? UINT64_C(1) << 63 : 0;
	const uint64_t a = widen(q, x) ^ top, b = widen(q, y) ^ top;

	return (a > b) - (a < b);
}

/* Executes up to MOST instructions of T, which runs, but not beyond one at which it waits for
 * others, or its end. */
static void run_thread(struct ptx *p, struct block *b, struct thread *t, uint64_t most)
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
			v = widen(&q, x) * widen(&q, y);
			break;
		case DOES_MAD:
			v = widen(&q, x) * widen(&q, y) + r[q.from[2]];
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
			v = (uint32_t)y < q.bits ? x << (uint32_t)y : 0;
			break;
		case DOES_COMPARE:
			v = ptx_compares((enum compare)q.compare, order(&q, x, y), false);
			break;
		default: /* DOES_MOVE */
			v = x;
			break;
		}
		r[q.to] = v & q.cut;
	}
	t->pc = pc;
}

/* Returns the number of registers of a thread: those of the text, and constants. */
static uint32_t registers_of(const struct ptx *p)
{
	return p->n_registers + p->n_constants;
}

/* Returns the words of a thread's registers and local memory. */
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

/* When threads of a warp have not been together for so many instructions, one in so many is a
 * random one of those that they are at: a thread that waits for another one of its warp does not
 * wait for ever. */
#define APART 1024u
#define STRAY 4u

static bool are_apart(const struct thread *t, const struct thread *other)
{
	return other->state != RUNS || t->pc != other->pc;
}

/* One of the instructions that threads of the warp are at, however many threads are there. */
static uint32_t any_of_warp(const struct thread *warp, uint32_t n)
{
	uint32_t pc = UINT32_MAX, found = 0, k, j;

	for (k = 0; k < n; k++) {
		if (warp[k].state != RUNS)
			continue;
		for (j = 0; j < k && are_apart(&warp[k], &warp[j]); j++)
			;
		if (j == k && draw(++found) == 0)
			pc = warp[k].pc;
	}
	return pc;
}

/* Returns the instruction that the warp executes next: the lowest one, so that threads that went
 * different ways come together again. UINT32_MAX: no thread runs. */
static uint32_t next_of_warp(const struct thread *warp, uint32_t n, uint32_t apart)
{
	uint32_t pc = UINT32_MAX, k;

	if (apart > APART && apart % STRAY == 0)
		return any_of_warp(warp, n);
	for (k = 0; k < n; k++)
		if (warp[k].state == RUNS && warp[k].pc < pc)
			pc = warp[k].pc;
	return pc;
}

/* Executes up to MOST instructions of a warp's threads in step. */
static void run_warp(struct ptx *p, struct block *b, struct thread *warp, uint32_t n, uint64_t most)
{
	uint32_t *const apart = &warp->apart;
	uint32_t pc, together, k;
	bool all;

	for (; most > 0 && (pc = next_of_warp(warp, n, *apart)) != UINT32_MAX; most--) {
		const struct instruction *i = &p->code[pc];

		together = 0;
		all = true;
		for (k = 0; k < n; k++) {
			const bool here = warp[k].state == RUNS && warp[k].pc == pc;

			all &= here || warp[k].state != RUNS;
			if (here &&
			    (!i->guarded || (warp[k].registers[i->guard] & 1) != i->negated))
				together |= UINT32_C(1) << k;
		}
		*apart = all ? 0 : *apart + 1;
		for (k = 0; k < n; k++) {
			if (warp[k].state != RUNS || warp[k].pc != pc)
				continue;
			warp[k].together = together;
			run_thread(p, b, &warp[k], 1);
		}
	}
}

/* Runs each thread of B up to where it waits for others, its end, or the end of its turn. A random
 * thread goes first, or a random warp. Returns whether any has not ended. */
static bool run_threads(struct ptx *p, struct block *b)
{
	const uint32_t each = p->in_step ? WARP : 1, n = (b->n + each - 1) / each;
	const uint32_t first = (uint32_t)draw(n);
	bool left = false, runs = false;
	uint32_t k;

	for (k = 0; k < n; k++) {
		const uint32_t at = (first + k) % n * each;
		struct thread *t = &b->threads[at];

		if (p->in_step)
			run_warp(p, b, t, b->n - at < WARP ? b->n - at : WARP,
				 most_steps(b->launch));
		else if (t->state == RUNS)
			run_thread(p, b, t, most_steps(b->launch));
		if (b->launch->pauses)
			b->launch->pauses(b->launch->data);
	}
	for (k = 0; k < b->n; k++) {
		left |= b->threads[k].state != OVER;
		runs |= b->threads[k].state == RUNS;
	}
	if (left && !runs && !ptx_meet(p, b))
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

/* Initialises B as the block with this number. */
static void begin_block(struct ptx *p, struct block *b, uint64_t number)
{
	const size_t each = words_of(p);
	uint32_t k;

	place_in(b->launch->grid, number, b->id);
	memset(b->arrived, 0, sizeof(b->arrived));
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

/* All blocks at a time, in turns. NVIDIA's cooperative groups find in %envreg1 and 2 the address of
 * two words, of which they use the second one to wait for all blocks. */
static void run_together(struct ptx *p, const struct ptx_launch *l, uint64_t n)
{
	uint32_t workspace[2] = {sizeof(workspace), 0};
	struct block *blocks = malloc(n * sizeof(*blocks));
	bool left = true;
	uint64_t i;

	for (i = 0; i < n; i++) {
		make_block(p, l, &blocks[i]);
		blocks[i].workspace = workspace;
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
