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

/* Largest number of rotations that are tried. */
#define TRIES 96u

/* A plan whose rotation is twice as long as preferred, or nearly zero, must be better by this much,
 * Q32, if all VFs stop in time. */
#define COST_OF_LENGTH (WHOLE / 1000)

/* Returns PART of LENGTH. */
static uint64_t part_of(uint64_t part, uint64_t length)
{
	return part * (length >> 8) >> 24;
}

/* The least quantum with which the firmware alone ensures floor, in a rotation of LENGTH. */
static uint64_t ensured(const struct target *t, uint32_t i, uint64_t length)
{
	uint64_t least;

	if (t->vfs[i].floor == 0)
		return t->vfs[i].least;
	least = part_of(t->vfs[i].floor, length + t->vfs[i].others);
	least = (least + ONE_STEP - 1) / ONE_STEP + 1;
	return least > t->vfs[i].least ? least : t->vfs[i].least;
}

/* Adds a TURN to both times: of the VFs that compete, and of them with those aside. */
static void add_turn(const struct target *t, uint32_t i, uint64_t turn, uint64_t times[2])
{
	if (t->vfs[i].share == 0)
		return;
	times[0] += t->vfs[i].aside ? 0 : turn;
	times[1] += turn;
}

uint64_t search_error(const struct target *t, const struct quanta *q, uint64_t limit)
{
	uint64_t steps = 0, both = 0, before = 0, competing[2] = {0}, all = 0, worst = 0, is, off;
	uint64_t per[2];
	uint32_t i;

	for (i = 0; i < t->n; i++) {
		uint64_t now = t->vfs[i].longest, turn = q->steps[i] * ONE_STEP + t->vfs[i].late;

		steps += q->steps[i];
		before += now;
		both += q->steps[i] > now ? q->steps[i] : now;
		all += turn;
		add_turn(t, i, turn, competing);
	}
	/* In the rotation in which a plan takes effect, some turns are still of the previous
	 * one. */
	if (steps > t->most || (both > t->rotation && before <= t->rotation))
		return WHOLE;
	for (i = 0; i < 2; i++)
		per[i] = (UINT64_C(1) << 56) / (competing[i] + !competing[i]);
	for (i = 0; i < t->n && worst < limit; i++) {
		if (t->vfs[i].floor && q->steps[i] < ensured(t, i, steps * ONE_STEP))
			return WHOLE;
		if (t->vfs[i].share) {
			is = (q->steps[i] * ONE_STEP + t->vfs[i].late) * per[t->vfs[i].aside] >> 24;
			off = is > t->vfs[i].share ? is - t->vfs[i].share : t->vfs[i].share - is;
		} else {
			/* A VF without work keeps its quantum, unless it is far from its part. */
			is = q->steps[i] * ONE_STEP;
			off = part_of(t->vfs[i].part, all);
			off = is + ONE_STEP < off / 2 || is > 2 * off + ONE_STEP ? WHOLE / 16 : 0;
		}
		worst = off > worst ? off : worst;
	}
	return worst;
}

/*
 * The cost of a rotation that deviates from the preferred length by that whole length. It grows
 * with the VFs' lateness: in another rotation lateness takes another part of the time, and the
 * estimate is a mean, from which the next epoch may differ. A quarter of the latest VF's part.
 */
static uint64_t cost_of_length(const struct target *t)
{
	uint64_t latest = 0;
	uint32_t i;

	for (i = 0; i < t->n; i++)
		latest = t->vfs[i].late > latest ? t->vfs[i].late : latest;
	return COST_OF_LENGTH + (latest << 14) / t->wanted;
}

/* The quanta of a rotation of LENGTH, rounded. */
static void at_length(const struct target *t, uint64_t length, struct quanta *q)
{
	uint64_t turn, least;
	uint32_t i;

	for (i = 0; i < t->n; i++) {
		turn = part_of(t->vfs[i].part, length);
		turn = turn > t->vfs[i].late ? turn - t->vfs[i].late : 0;
		least = ensured(t, i, length);
		q->steps[i] = (turn + ONE_STEP / 2) / ONE_STEP;
		q->steps[i] = q->steps[i] < least ? least : q->steps[i];
	}
}

/* A search, and the best plan so far. */
struct search {
	const struct target *t;
	uint64_t cost;	    /* cost of each changed quantum */
	uint64_t of_length; /* cost_of_length() */
	uint64_t best;
	struct quanta *out;
};

/* Keeps Q if it is better. Computes its error, which takes longest, only if its writes and its
 * length do not cost too much already. */
static void keep_better(struct search *s, const struct quanta *q)
{
	const struct target *t = s->t;
	uint64_t total = 0, steps = 0, error;
	uint32_t i;

	for (i = 0; i < t->n; i++) {
		total += q->steps[i] != t->vfs[i].now ? s->cost : 0;
		steps += q->steps[i];
	}
	steps = steps > t->wanted ? steps - t->wanted : t->wanted - steps;
	total += steps * s->of_length / t->wanted;
	if (total >= s->best)
		return;
	error = search_error(t, q, s->best - total);
	if (error == WHOLE || total + error >= s->best)
		return;
	s->best = total + error;
	*s->out = *q;
}

/* Tries all plans that differ from the present one in one quantum, set to make that VF's share
 * right. */
static void try_one_by_one(struct search *s)
{
	const struct target *t = s->t;
	struct quanta q;
	uint64_t all[2] = {0}, rest, turn;
	uint32_t i;

	for (i = 0; i < t->n; i++) {
		q.steps[i] = t->vfs[i].now;
		add_turn(t, i, q.steps[i] * ONE_STEP + t->vfs[i].late, all);
	}
	keep_better(s, &q);
	for (i = 0; i < t->n; i++) {
		uint64_t share = t->vfs[i].share, own = q.steps[i] * ONE_STEP + t->vfs[i].late;

		if (share == 0 || share >= WHOLE - (WHOLE >> 8))
			continue;
		/* turn / (turn + rest) = share */
		rest = all[t->vfs[i].aside] - own;
		turn = rest * (share >> 8) / ((WHOLE - share) >> 8);
		turn = turn > t->vfs[i].late ? turn - t->vfs[i].late : 0;
		q.steps[i] = (turn + ONE_STEP / 2) / ONE_STEP;
		if (q.steps[i] < t->vfs[i].least)
			q.steps[i] = t->vfs[i].least;
		keep_better(s, &q);
		q.steps[i] = t->vfs[i].now;
	}
}

void search_quanta(const struct target *t, uint64_t cost, struct quanta *out)
{
	struct search s = {t, cost, cost_of_length(t), UINT64_MAX, out};
	uint64_t late = 0, first = 0, length, last, stride;
	struct quanta q;
	uint32_t i;

	for (i = 0; i < t->n; i++) {
		late += t->vfs[i].late;
		first += t->vfs[i].least * ONE_STEP;
		out->steps[i] = t->vfs[i].least;
	}
	try_one_by_one(&s);
	last = t->most * ONE_STEP + late;
	stride = ((last - first) / TRIES + ONE_STEP - 1) / ONE_STEP * ONE_STEP;
	for (length = first; length <= last; length += stride ? stride : ONE_STEP) {
		at_length(t, length, &q);
		keep_better(&s, &q);
	}
}
