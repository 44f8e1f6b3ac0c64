/* SPDX-License-Identifier: MIT */
/* Instructions that threads execute together: barriers of a block, and what lanes of a warp
 * exchange. The threads that take part have all come to the same instruction. */
#include "ptx_private.h"

static const struct instruction *at(const struct ptx *p, const struct thread *t)
{
	return &p->code[t->pc - 1];
}

/* Returns the mask of lanes that an instruction of a warp has as its last operand; without one, the
 * lanes that execute it together. */
static uint32_t mask_of(const struct ptx *p, const struct thread *t)
{
	const struct instruction *i = at(p, t);

	if (i->op == OP_BAR || i->op == OP_ELECT)
		return (uint32_t)t->given[0];
	if (!(i->flags & FLAG_SYNC))
		return t->together;
	return (uint32_t)t->given[i->op == OP_SHFL ? 3 : 1];
}

/* Returns the mask of the warp's lanes whose predicate is set. */
static uint32_t votes(const struct thread *warp, uint32_t n, uint32_t mask)
{
	uint32_t all = 0, k;

	for (k = 0; k < n; k++)
		if (mask >> k & 1)
			all |= (uint32_t)(warp[k].given[0] & 1) << k;
	return all;
}

static uint64_t vote(const struct instruction *i, uint32_t set, uint32_t mask)
{
	switch (i->how) {
	case HOW_BALLOT:
		return set;
	case HOW_ALL:
		return set == mask;
	case HOW_ANY:
		return set != 0;
	default: /* HOW_UNI */
		return set == mask || set == 0;
	}
}

/* As the ISA's description of shfl computes it: C has the bound of the lanes in its low five bits,
 * and a mask of segments above. */
static uint64_t shuffle(const struct instruction *i, const struct thread *warp, uint32_t n,
			const struct thread *t, bool *found)
{
	uint32_t b = (uint32_t)t->given[1] & 31, c = (uint32_t)t->given[2];
	uint32_t segment = c >> 8 & 31, bound = c & 31, lane = t->lane, j;
	uint32_t most = (lane & segment) | (bound & ~segment), least = lane & segment;
	bool in;

	switch (i->how) {
	case HOW_UP:
		j = lane - b;
		in = (int32_t)j >= (int32_t)most;
		break;
	case HOW_DOWN:
		j = lane + b;
		in = j <= most;
		break;
	case HOW_BFLY:
		j = lane ^ b;
		in = j <= most;
		break;
	default:
		j = least | (b & ~segment);
		in = j <= most;
		break;
	}
	j = in ? j : lane;
	*found = in;
	return j < n ? warp[j].given[0] : 0;
}

/* match: the lanes whose value is that of T. .all: all of them or none. */
static uint64_t match(const struct instruction *i, const struct thread *warp, uint32_t n,
		      const struct thread *t, uint32_t mask, bool *found)
{
	uint32_t same = 0, k;

	for (k = 0; k < n; k++)
		if (mask >> k & 1 && ptx_cut(&i->type, warp[k].given[0] ^ t->given[0]) == 0)
			same |= UINT32_C(1) << k;
	*found = same == mask;
	return i->how == HOW_ALL && !*found ? 0 : same;
}

static uint64_t reduce_lanes(struct ptx *p, const struct instruction *i, const struct thread *warp,
			     uint32_t n, uint32_t mask)
{
	uint64_t sum = 0;
	bool any = false;
	uint32_t k;

	for (k = 0; k < n; k++) {
		if (!(mask >> k & 1))
			continue;
		sum = any ? ptx_atom(p, i, sum, warp[k].given[0], 0) : warp[k].given[0];
		any = true;
	}
	return sum;
}

/* Returns the result for lane T of the lanes of MASK. FOUND: the result's predicate. */
static uint64_t exchanged(struct ptx *p, const struct thread *warp, uint32_t n,
			  const struct thread *t, uint32_t mask, bool *found)
{
	const struct instruction *i = at(p, t);

	switch (i->op) {
	case OP_VOTE:
		return vote(i, votes(warp, n, mask), mask);
	case OP_SHFL:
		return shuffle(i, warp, n, t, found);
	case OP_MATCH:
		return match(i, warp, n, t, mask, found);
	case OP_REDUX:
		return reduce_lanes(p, i, warp, n, mask);
	default: /* OP_ELECT: the lowest lane is the leader */
		*found = (mask & -mask) >> t->lane & 1;
		return (uint64_t)__builtin_ctz(mask);
	}
}

/* Executes the instruction for the lanes of MASK, which have all come to it. */
static void exchange(struct ptx *p, struct thread *warp, uint32_t n, uint32_t mask)
{
	uint64_t values[WARP];
	bool found[WARP] = {false};
	uint32_t k;

	for (k = 0; k < n; k++)
		if (mask >> k & 1 && at(p, &warp[k])->op != OP_BAR)
			values[k] = exchanged(p, warp, n, &warp[k], mask, &found[k]);
	for (k = 0; k < n; k++) {
		const struct instruction *i = at(p, &warp[k]);

		if (!(mask >> k & 1))
			continue;
		if (i->op != OP_BAR) {
			warp[k].registers[i->operands[0].value] = values[k] & i->cut;
			if (i->paired)
				warp[k].registers[i->second] = found[k];
		}
		warp[k].state = RUNS;
	}
}

/* Returns whether all lanes that T waits for have come to where it is, or have ended. Those that
 * have are written to *MASK. */
static bool has_met(const struct ptx *p, const struct thread *warp, uint32_t n,
		    const struct thread *t, uint32_t *mask)
{
	uint32_t wanted = mask_of(p, t), k;

	*mask = 0;
	for (k = 0; k < n; k++) {
		if (!(wanted >> k & 1) || warp[k].state == OVER)
			continue;
		if (warp[k].state != AT_WARP || warp[k].pc != t->pc)
			return false;
		*mask |= UINT32_C(1) << k;
	}
	return *mask >> t->lane & 1;
}

static bool meet_warps(struct ptx *p, struct thread *threads, uint32_t n)
{
	bool any = false;
	uint32_t w, k, mask;

	for (w = 0; w < n; w += WARP) {
		struct thread *warp = &threads[w];
		uint32_t lanes = n - w < WARP ? n - w : WARP;

		for (k = 0; k < lanes; k++)
			if (warp[k].state == AT_WARP && has_met(p, warp, lanes, &warp[k], &mask)) {
				exchange(p, warp, lanes, mask);
				any = true;
			}
	}
	return any;
}

/* bar.red: operands are the barrier, and the predicate. */
static uint64_t reduce(const struct instruction *i, uint32_t set, uint32_t n)
{
	if (i->how == HOW_POPC)
		return set;
	return i->how == HOW_AND ? set == n : set > 0;
}

static bool is_reduction(const struct instruction *i)
{
	return i->how == HOW_POPC || i->how == HOW_AND || i->how == HOW_OR;
}

/* Returns for how many threads barrier WHICH waits: as many as it names, or all that have not
 * ended. */
static bool is_full(const struct ptx *p, const struct block *b, uint32_t which, uint32_t *n,
		    uint32_t *set)
{
	uint32_t k, alive = 0, named = 0;

	*n = *set = 0;
	for (k = 0; k < b->n; k++) {
		const struct thread *t = &b->threads[k];
		const struct instruction *i = at(p, t);

		alive += t->state != OVER;
		if (t->state != AT_BARRIER || t->given[0] % BARRIERS != which)
			continue;
		(*n)++;
		if (is_reduction(i))
			*set += (uint32_t)(t->given[1] & 1);
		else if (i->n > 1)
			named = (uint32_t)t->given[1];
	}
	return *n > 0 && *n + b->arrived[which] >= (named ? named : alive);
}

static bool meet_at(struct ptx *p, struct block *b, uint32_t which)
{
	uint32_t n, set, k;

	if (!is_full(p, b, which, &n, &set))
		return false;
	b->arrived[which] = 0;
	for (k = 0; k < b->n; k++) {
		struct thread *t = &b->threads[k];
		const struct instruction *i = at(p, t);

		if (t->state != AT_BARRIER || t->given[0] % BARRIERS != which)
			continue;
		if (is_reduction(i))
			t->registers[i->operands[0].value] = reduce(i, set, n);
		t->state = RUNS;
	}
	return true;
}

bool ptx_meet(struct ptx *p, struct block *b)
{
	bool any = meet_warps(p, b->threads, b->n);
	uint32_t which;

	for (which = 0; which < BARRIERS && !any; which++)
		any = meet_at(p, b, which);
	return any;
}
