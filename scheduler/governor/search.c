/* SPDX-License-Identifier: MIT */
/*
 * Quanta are whole steps (1 ms on Intel's GPUs), and a VF that stops late adds to each of its
 * turns. So shares come out rounded, and how much depends on the length of the rotation: 100:70:30
 * is exact in 20 ms (10:7:3), and wrong by 2.5 points in 16 ms (8:6:2). The search tries rotations
 * from the shortest to the longest, and also each plan in which only one quantum changes: a plan
 * with more writes has to be better by COST for each.
 *
 * Integers: fractions Q32, lengths Q16 steps. A length is less than 2^30, so all products fit.
 */
#include "private.h"

/* The most rotations that are tried. */
#define TRIES 96u

/* A plan whose rotation is twice as long as wanted, or nearly nothing, has to be better by so much,
 * Q32, if all VFs stop in time. */
#define COST_OF_LENGTH (WHOLE / 1000)

/* Returns PART of LENGTH. */
static uint64_t part_of(uint64_t part, uint64_t length)
{
	return part * (length >> 8) >> 24;
}

/* The least quantum with which the firmware alone ensures floor, in a rotation of LENGTH. */
static uint64_t ensured(const struct wish *w, uint32_t i, uint64_t length)
{
	uint64_t least = part_of(w->vfs[i].floor, length + w->vfs[i].others);

	least = (least + ONE_STEP - 1) / ONE_STEP + (w->vfs[i].floor > 0);
	return least > w->vfs[i].least ? least : w->vfs[i].least;
}

uint64_t search_error(const struct wish *w, const struct quanta *q)
{
	uint64_t steps = 0, both = 0, before = 0, competing = 0, all = 0, per, worst = 0, is, off;
	uint32_t i;

	for (i = 0; i < w->n; i++) {
		steps += q->steps[i];
		before += w->vfs[i].now;
		both += q->steps[i] > w->vfs[i].now ? q->steps[i] : w->vfs[i].now;
		all += q->steps[i] * ONE_STEP + w->vfs[i].late;
		if (w->vfs[i].share)
			competing += q->steps[i] * ONE_STEP + w->vfs[i].late;
	}
	/* In the rotation in which a plan begins to act, some turns are still of the last one. */
	if (steps > w->rotation || (both > w->rotation && before <= w->rotation))
		return WHOLE;
	per = (UINT64_C(1) << 56) / (competing + !competing);
	for (i = 0; i < w->n; i++) {
		if (w->vfs[i].floor && q->steps[i] < ensured(w, i, steps * ONE_STEP))
			return WHOLE;
		if (w->vfs[i].share) {
			is = (q->steps[i] * ONE_STEP + w->vfs[i].late) * per >> 24;
			off = is > w->vfs[i].share ? is - w->vfs[i].share : w->vfs[i].share - is;
		} else {
			/* A VF without work keeps its quantum, unless it is far from its part. */
			is = q->steps[i] * ONE_STEP;
			off = part_of(w->vfs[i].part, all);
			off = is + ONE_STEP < off / 2 || is > 2 * off + ONE_STEP ? WHOLE / 16 : 0;
		}
		worst = off > worst ? off : worst;
	}
	return worst;
}

/*
 * What it costs to be a whole rotation away from the length that is wanted. The later VFs stop, the
 * more: in another rotation they take another part of the time, and an estimate of lateness is a
 * mean, which the next epoch need not be like. A quarter of the part that the latest VF takes.
 */
static uint64_t cost_of_length(const struct wish *w)
{
	uint64_t latest = 0;
	uint32_t i;

	for (i = 0; i < w->n; i++)
		latest = w->vfs[i].late > latest ? w->vfs[i].late : latest;
	return COST_OF_LENGTH + (latest << 14) / w->wanted;
}

static uint64_t price(const struct wish *w, const struct quanta *q, uint64_t cost)
{
	uint64_t total = search_error(w, q), steps = 0;
	uint32_t i;

	if (total == WHOLE)
		return UINT64_MAX;
	for (i = 0; i < w->n; i++) {
		total += q->steps[i] != w->vfs[i].now ? cost : 0;
		steps += q->steps[i];
	}
	steps = steps > w->wanted ? steps - w->wanted : w->wanted - steps;
	return total + steps * cost_of_length(w) / w->wanted;
}

/* The quanta of a rotation of LENGTH, rounded. */
static void at_length(const struct wish *w, uint64_t length, struct quanta *q)
{
	uint64_t turn, least;
	uint32_t i;

	for (i = 0; i < w->n; i++) {
		turn = part_of(w->vfs[i].part, length);
		turn = turn > w->vfs[i].late ? turn - w->vfs[i].late : 0;
		least = ensured(w, i, length);
		q->steps[i] = (turn + ONE_STEP / 2) / ONE_STEP;
		q->steps[i] = q->steps[i] < least ? least : q->steps[i];
	}
}

static void keep_better(const struct wish *w, uint64_t cost, const struct quanta *q, uint64_t *best,
			struct quanta *out)
{
	uint64_t total = price(w, q, cost);

	if (total < *best) {
		*best = total;
		*out = *q;
	}
}

/* All plans that differ from what is in force in one quantum, by what makes that VF's share right.
 */
static void try_one_by_one(const struct wish *w, uint64_t cost, uint64_t *best, struct quanta *out)
{
	struct quanta q;
	uint64_t rest = 0, turn;
	uint32_t i;

	for (i = 0; i < w->n; i++) {
		q.steps[i] = w->vfs[i].now;
		rest += w->vfs[i].share ? q.steps[i] * ONE_STEP + w->vfs[i].late : 0;
	}
	keep_better(w, cost, &q, best, out);
	for (i = 0; i < w->n; i++) {
		uint64_t share = w->vfs[i].share, own = q.steps[i] * ONE_STEP + w->vfs[i].late;

		if (share == 0 || share >= WHOLE - (WHOLE >> 8))
			continue;
		/* turn / (turn + rest) = share */
		turn = (rest - own) * (share >> 8) / ((WHOLE - share) >> 8);
		turn = turn > w->vfs[i].late ? turn - w->vfs[i].late : 0;
		q.steps[i] = (turn + ONE_STEP / 2) / ONE_STEP;
		if (q.steps[i] < w->vfs[i].least)
			q.steps[i] = w->vfs[i].least;
		keep_better(w, cost, &q, best, out);
		q.steps[i] = w->vfs[i].now;
	}
}

void search_quanta(const struct wish *w, uint64_t cost, struct quanta *out)
{
	uint64_t best = UINT64_MAX, late = 0, first = 0, length, last, stride;
	struct quanta q;
	uint32_t i;

	for (i = 0; i < w->n; i++) {
		late += w->vfs[i].late;
		first += w->vfs[i].least * ONE_STEP;
		out->steps[i] = w->vfs[i].least;
	}
	try_one_by_one(w, cost, &best, out);
	last = w->rotation * ONE_STEP + late;
	stride = ((last - first) / TRIES + ONE_STEP - 1) / ONE_STEP * ONE_STEP;
	for (length = first; length <= last; length += stride ? stride : ONE_STEP) {
		at_length(w, length, &q);
		keep_better(w, cost, &q, &best, out);
	}
}
