/* SPDX-License-Identifier: MIT */
/* Instructions that threads execute together: barriers of a block, and what lanes of a warp
 * exchange. The threads that take part have all come to the same instruction. */
#include "ptx_private.h"

static const struct instruction *at(const struct ptx *p, const struct thread *t)
{
	return &p->code[t->pc - 1];
}

/* The mask of lanes that an instruction of a warp names: its last operand. */
static uint32_t mask_of(const struct ptx *p, const struct thread *t)
{
	const struct instruction *i = at(p, t);

	if (i->op == OP_SHFL)
		return (uint32_t)t->given[3];
	return (uint32_t)t->given[i->op == OP_VOTE ? 1 : 0];
}

/* Bits of the warp's lanes whose predicate is set. */
static uint32_t votes(const struct thread *warp, uint32_t n, uint32_t mask)
{
	uint32_t all = 0, k;

	for (k = 0; k < n; k++)
		if (mask >> k & 1)
			all |= (uint32_t)(warp[k].given[0] & 1) << k;
	return all;
}

static void vote(const struct ptx *p, struct thread *warp, uint32_t n, struct thread *t,
		 uint32_t mask)
{
	const struct instruction *i = at(p, t);
	uint32_t set = votes(warp, n, mask);
	uint64_t *to = &t->registers[i->operands[0].value];

	if (i->how == HOW_BALLOT)
		*to = set;
	else
		*to = i->how == HOW_ALL ? set == mask : set != 0;
}

/* As the ISA's description of shfl computes it: C has the bound of the lanes in its low five bits,
 * and a mask of segments above. */
static void shuffle(const struct ptx *p, const struct thread *warp, uint32_t n, struct thread *t,
		    uint64_t *value, uint64_t *found)
{
	const struct instruction *i = at(p, t);
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
	*value = j < n ? warp[j].given[0] : 0;
	*found = in;
}

/* Executes the instruction for the lanes of MASK, which have all come to it. */
static void exchange(struct ptx *p, struct thread *warp, uint32_t n, uint32_t mask)
{
	uint64_t values[WARP], found[WARP];
	uint32_t k;

	for (k = 0; k < n; k++)
		if (mask >> k & 1 && at(p, &warp[k])->op == OP_SHFL)
			shuffle(p, warp, n, &warp[k], &values[k], &found[k]);
	for (k = 0; k < n; k++) {
		const struct instruction *i = at(p, &warp[k]);

		if (!(mask >> k & 1))
			continue;
		if (i->op == OP_VOTE)
			vote(p, warp, n, &warp[k], mask);
		if (i->op == OP_SHFL) {
			warp[k].registers[i->operands[0].value] = ptx_cut(&i->type, values[k]);
			if (i->paired)
				warp[k].registers[i->second] = found[k];
		}
		warp[k].state = RUNS;
	}
}

/* Whether all lanes that T waits for have come to where it is, or have ended. Those that have are
 * written to *MASK. */
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

bool ptx_meet(struct ptx *p, struct thread *threads, uint32_t n)
{
	uint32_t k, waiting = 0, set = 0;

	if (meet_warps(p, threads, n))
		return true;
	for (k = 0; k < n; k++) {
		if (threads[k].state == OVER)
			continue;
		if (threads[k].state != AT_BARRIER)
			return false;
		waiting++;
		set += at(p, &threads[k])->n > 2 ? (uint32_t)(threads[k].given[1] & 1) : 0;
	}
	for (k = 0; k < n; k++) {
		const struct instruction *i;

		if (threads[k].state == OVER)
			continue;
		i = at(p, &threads[k]);
		if (i->n > 2)
			threads[k].registers[i->operands[0].value] = reduce(i, set, waiting);
		threads[k].state = RUNS;
	}
	return true;
}
