/* SPDX-License-Identifier: MIT */
/*
 * The service that VFs are due: the policy's ideal, and the debts to them beyond the slack, paid
 * within `settle`.
 *
 * A VF with little work looks like a VF that gets few turns because the others stop late: both seem
 * to be owed the service that they did not get, but the first would not use it. Such VFs are in
 * doubt and stand aside (measure.c), and two decisions are made apart. Their own quanta are
 * computed as if they competed with all VFs that have work. The others divide the time among
 * themselves as if the VFs in doubt had no work, and the sum of their debts is left out: otherwise
 * the correction of one VF's excess would be larger than the excess, and shares would oscillate.
 */
#include "private.h"

/* Service that VFs with work are due in `settle`. */
struct dues {
	int64_t of[VGPU_GPU_MAX_VFS];
	int64_t sum;	/* sum of the VFs that compete */
	int64_t others; /* sum of the VFs aside */
	int64_t claim;	/* claim of all VFs that compete, against those aside */
};

/* The part of OWED that is worth a correction: the part beyond the slack, or, TO_HALF, beyond half
 * of the slack. */
static int64_t to_correct(const struct vgpu_governor *g, int64_t owed, bool to_half)
{
	int64_t slack = (int64_t)g->config.slack, kept = to_half ? slack / 2 : slack;

	if (owed > slack)
		return owed - kept;
	return owed < -slack ? owed + kept : 0;
}

/* Returns X * PART / SUM. */
static int64_t scale(int64_t x, int64_t part, int64_t sum)
{
	return (int64_t)((__int128)x * part / (sum + !sum));
}

static int64_t ideal(const struct governed *vf)
{
	return vf->fluid > 0 ? vf->fluid : 1;
}

/*
 * Returns the claim of the competing VFs against OTHERS, as little as they need, because one of the
 * others may wait for turns that it has too few of. Where a quantum is as short as it can be, a VF
 * that stops late has what it wants, so turns are twice as long at least; and a quarter of what
 * their parts are, since how late VFs stop is an estimate. At most three quarters of the time.
 * IDEALS: the sum of theirs. PARTS: of all that have work.
 */
static int64_t claim(const struct vgpu_governor *g, const struct target *t, int64_t ideals,
		     uint64_t parts, int64_t others)
{
	uint64_t longest = t->rotation * ONE_STEP, competing = 0;
	int64_t needed = 0, least, all;
	uint32_t i;

	for (i = 0; i < t->n; i++) {
		longest += t->vfs[i].late;
		if (t->vfs[i].share == 0 || t->vfs[i].aside)
			continue;
		competing += t->vfs[i].part;
		if (ideal(&g->vfs[i]) == ideals)
			continue; /* alone: it has no proportion to keep */
		least = (int64_t)(t->vfs[i].late + t->vfs[i].least * ONE_STEP);
		all = scale(2 * least, ideals, ideal(&g->vfs[i]));
		needed = all > needed ? all : needed;
	}
	all = (int64_t)longest;
	least = scale(all / 4, (int64_t)competing, (int64_t)parts);
	needed = needed > least ? needed : least;
	needed = needed > all / 4 * 3 ? all / 4 * 3 : needed;
	return scale(others, needed, all - needed);
}

/* Debts to all VFs together; and the ideals of those that compete. */
struct owed {
	int64_t competing, ideals, aside;
};

/* The part of a debt to a VF that is paid now: the debts to those that compete add up to zero, and
 * those aside are paid at most half of the time. */
static int64_t correction(const struct vgpu_governor *g, const struct target *t, uint32_t i,
			  const struct owed *all, bool to_half)
{
	int64_t owed = g->vfs[i].owed, most = (int64_t)g->config.settle / 2;

	if (!t->vfs[i].aside)
		owed -= scale(all->competing, ideal(&g->vfs[i]), all->ideals);
	else if (all->aside > most)
		owed = scale(owed, most, all->aside);
	return to_correct(g, owed, to_half);
}

/* PARTS: sum of the parts of all VFs with work. */
static void find_dues(const struct vgpu_governor *g, const struct target *t, uint64_t parts,
		      bool to_half, struct dues *d)
{
	int64_t settle = (int64_t)g->config.settle, nominal = settle, least;
	struct owed all = {.ideals = 0};
	uint32_t i;

	*d = (struct dues){.sum = 0};
	for (i = 0; i < t->n; i++) {
		if (t->vfs[i].share == 0)
			continue;
		if (t->vfs[i].aside) {
			d->of[i] = scale((int64_t)t->vfs[i].part, settle, (int64_t)parts);
			nominal -= d->of[i];
			all.aside += g->vfs[i].owed;
			continue;
		}
		d->of[i] = scale(ideal(&g->vfs[i]), settle, (int64_t)g->busy);
		all.ideals += ideal(&g->vfs[i]);
		all.competing += g->vfs[i].owed;
	}
	for (i = 0; i < t->n; i++) {
		if (t->vfs[i].share == 0)
			continue;
		d->of[i] += correction(g, t, i, &all, to_half);
		d->of[i] = d->of[i] > 0 ? d->of[i] : 1;
		*(t->vfs[i].aside ? &d->others : &d->sum) += d->of[i];
	}
	if (d->others == 0) {
		d->claim = d->sum;
		return;
	}
	least = claim(g, t, all.ideals, parts, d->others);
	d->claim = nominal - all.aside > least ? nominal - all.aside : least;
}

uint32_t dues_compete(const struct vgpu_governor *g, struct target *t, bool to_half)
{
	uint64_t parts = 0;
	struct dues d;
	uint32_t n = 0, i;

	for (i = 0; i < t->n; i++) {
		if (g->vfs[i].state != VGPU_GOVERNED_BUSY)
			continue;
		n++;
		parts += t->vfs[i].part;
		t->vfs[i].share = 1; /* not zero; its amount follows */
		t->vfs[i].aside = g->vfs[i].aside;
		t->most = t->vfs[i].aside ? t->rotation - t->rotation / 8 : t->most;
		t->vfs[i].late = g->vfs[i].late * ONE_STEP / g->config.quantum.step;
	}
	find_dues(g, t, parts, to_half, &d);
	for (i = 0; i < t->n; i++) {
		bool aside = t->vfs[i].aside;
		int64_t due = d.of[i], all = d.claim + d.others;

		if (t->vfs[i].share == 0)
			continue;
		t->vfs[i].share = (uint64_t)scale(due, WHOLE, aside ? all : d.sum);
		t->vfs[i].share += t->vfs[i].share == 0;
		due = aside ? due : scale(due, d.claim, d.sum);
		t->vfs[i].part = (uint64_t)scale(due, (int64_t)parts, all);
	}
	return n;
}
