/* SPDX-License-Identifier: MIT */
/*
 * Guarantees: which budgets are admitted; for a refused budget, which one would be admitted; and
 * whether admitted budgets can still be kept.
 */
#pragma once

#include "admission.h"
#include "servers.h"
#include "text.h"

/* The unit in which a budget is requested. A refusal states the possible budget in the same
 * unit. */
enum promises_unit {
	PROMISES_BUDGET, /* budget_us in period_us */
	PROMISES_SHARE,	 /* min, in percent, of period_ms */
	PROMISES_FRAME,	 /* frame_us, fps times a second */
};

struct promises {
	struct server *sets; /* scratch, for admission */
	struct text text;
};

static inline size_t promises_memory(uint32_t max_vfs)
{
	return max_vfs * sizeof(struct server);
}

static inline void *promises_init(struct promises *p, void *memory, uint32_t max_vfs)
{
	p->sets = memory;
	return p->sets + max_vfs;
}

/*
 * Writes the servers of S to sets[], with INDEX as a server of BUDGET in PERIOD, ns (budget 0:
 * without INDEX). Returns their number.
 */
static inline uint32_t promises_with(struct promises *p, const struct servers *s, uint32_t index,
				     vgpu_nsec budget, vgpu_nsec period)
{
	uint32_t i, n = 0;

	for (i = 0; i < s->facts->max_vfs; i++)
		if (i != index && s->cbs[i].budget)
			p->sets[n++] = (struct server){.vf = i,
						       .budget = s->cbs[i].budget,
						       .period = s->cbs[i].period,
						       .piece = s->cbs[i].piece};
	if (budget)
		p->sets[n++] = (struct server){.vf = index, .budget = budget, .period = period};
	return n;
}

/* Writes all servers of S to sets[], and returns their number. */
static inline uint32_t promises_all(struct promises *p, const struct servers *s)
{
	return promises_with(p, s, VGPU_NO_VF, 0, 0);
}

/* Returns the largest budget for INDEX, from LEAST to HIGH ns, with which all N servers keep their
 * budgets; 0 if there is none. */
static inline vgpu_nsec promises_most(struct promises *p, const struct admission *a, uint32_t n,
				      uint32_t index, vgpu_nsec least, vgpu_nsec high)
{
	vgpu_nsec low = least, middle;
	uint32_t i;

	for (middle = low;; middle = low + (high - low) / 2) {
		for (i = 0; p->sets[i].vf != index; i++) /* the test has sorted them */
			;
		p->sets[i].budget = middle;
		if (admission_test(a, p->sets, n))
			low = middle;
		else if (middle == least)
			return 0;
		else
			high = middle;
		if (high - low <= VGPU_USEC)
			return low;
	}
}

/* Adds to T the shortest period in which the share BUDGET / PERIOD is at least LEAST, if UNIT is a
 * share: budgets in other units do not grow with their period. */
static inline void promises_add_period(struct text *t, enum promises_unit unit, vgpu_nsec budget,
				       vgpu_nsec period, vgpu_nsec least)
{
	unsigned __int128 product = (unsigned __int128)period * least;
	vgpu_nsec longer = budget ? (vgpu_nsec)((product + budget - 1) / budget) : period;

	if (unit != PROMISES_SHARE)
		return;
	text_add(t, "; for this share the period must be at least ");
	text_number(t, (longer + VGPU_MSEC - 1) / VGPU_MSEC);
	text_add(t, " ms");
}

/* Adds to T the largest budget of PERIOD, MOST, rounded down if it stays at least LEAST. */
static inline void promises_add_most(struct text *t, enum promises_unit unit, vgpu_nsec most,
				     vgpu_nsec period, vgpu_nsec least)
{
	static const char *const what[] = {
		[PROMISES_BUDGET] = "; the largest budget_us that fits into this period is ",
		[PROMISES_SHARE] = "; the largest min that fits into this period is ",
		[PROMISES_FRAME] = "; the largest frame_us that fits into this period is ",
	};
	uint64_t ppm = most * 1000000 / period / 100 * 100;

	if (most < least || (unit == PROMISES_SHARE && period * ppm / 1000000 < least)) {
		text_add(t, "; none fits into this period");
		return;
	}
	text_add(t, what[unit]);
	if (unit == PROMISES_SHARE)
		text_percent(t, ppm);
	else
		text_us(t, most / VGPU_USEC * VGPU_USEC);
}

/*
 * Returns whether INDEX can have BUDGET in PERIOD (ns), which was requested in UNIT, beside the
 * other servers. If not, *WHY is a sentence, in P's memory, that says which budget is possible.
 * Changes nothing else.
 */
static inline bool promises_admit(struct promises *p, const struct servers *s,
				  const struct admission *a, uint32_t index, vgpu_nsec budget,
				  vgpu_nsec period, enum promises_unit unit, const char **why)
{
	vgpu_nsec least = s->facts->min_slice_ns;
	struct text *t = &p->text;
	uint32_t n;

	t->n = 0;
	t->s[0] = '\0';
	if (budget < least) {
		*why = t->s;
		text_add(t, unit == PROMISES_FRAME ? "a frame of " : "a budget of ");
		text_us(t, budget);
		text_add(t, " is less than the shortest slice, ");
		text_us(t, least);
		promises_add_period(t, unit, budget, period, least);
		return false;
	}
	n = promises_with(p, s, index, budget, period);
	if (admission_test(a, p->sets, n))
		return true;
	*why = t->s;
	text_add(t, "the other VFs' guarantees leave too little time, with switches of ");
	text_us(t, a->switch_ns);
	promises_add_most(t, unit, promises_most(p, a, n, index, least, budget), period, least);
	return false;
}

/* Returns the parameters of the admission test. LATE: how late a VF may stop, ns; COVER: for how
 * long something else may hold the engine, once, ns. */
static inline struct admission promises_rules(const struct servers *s, int64_t mode,
					      int64_t cap_pct, vgpu_nsec late, vgpu_nsec cover)
{
	const struct vgpu_facts *f = s->facts;
	vgpu_nsec run = f->min_slice_ns > f->min_run_ns ? f->min_slice_ns : f->min_run_ns;

	return (struct admission){
		.mode = (enum admission_mode)mode,
		.switch_ns = f->switch_high_ns,
		.longest = f->max_slice_ns,
		.pieces = mode == ADMISSION_FULL,
		.run = run,
		.stretch = run + late + cover,
		.late = late,
		.carry = (vgpu_nsec)servers_crumb(s),
		.cap_ppm = (uint64_t)cap_pct * 10000,
	};
}

static inline bool promises_are_kept(struct promises *p, const struct servers *s,
				     const struct admission *a)
{
	return admission_test(a, p->sets, promises_all(p, s));
}

/* Returns the longest switch, at most A's, with which the first N of sets[] keep their budgets, ns;
 * 0 if there is none. */
static inline vgpu_nsec promises_longest_switch(struct promises *p, const struct admission *a,
						uint32_t n)
{
	vgpu_nsec low = 0, high = a->switch_ns;
	struct admission then = *a;

	if (admission_test(&then, p->sets, n))
		return high;
	while (high - low > VGPU_USEC) {
		then.switch_ns = low + (high - low) / 2;
		if (admission_test(&then, p->sets, n))
			low = then.switch_ns;
		else
			high = then.switch_ns;
	}
	return low;
}

/*
 * Must be called when servers were added, removed or changed, or the switch has become longer than
 * was assumed. Which of the two tests the servers pass decides whether bandwidth accrues in sleep,
 * and how long a server runs before another may interrupt it. If they pass neither any more,
 * because the estimate of the switch has grown, the longest switch with which they pass is assumed:
 * the highest estimate of a switch that varies is longer than any real one. Returns the least slack
 * of a server (admission_cut()), ns.
 */
static inline vgpu_nsec promises_changed(struct promises *p, struct servers *s,
					 const struct admission *a)
{
	uint32_t n = promises_all(p, s), i;
	vgpu_nsec slack = VGPU_NEVER;
	struct admission kept = *a, room;

	kept.switch_ns = promises_longest_switch(p, a, n);
	s->accrue = a->mode != ADMISSION_FULL || admission_by_rates(&kept, p->sets, n);
	/* Allow for a switch that is longer by 1/16, so that this is not repeated each time the
	 * switch becomes longer by 1 ns. */
	room = kept;
	room.switch_ns += room.switch_ns / 16;
	if (!admission_by_demand(&room, p->sets, n))
		room.switch_ns = kept.switch_ns;
	s->cut = a->pieces && !s->accrue && admission_by_demand(&room, p->sets, n);
	s->reckoned = room.switch_ns;
	if (kept.switch_ns < a->switch_ns)
		s->reckoned = a->switch_ns + a->switch_ns / 16;
	for (i = 0; i < n; i++) {
		s->cbs[p->sets[i].vf].piece = s->cut ? p->sets[i].piece : 0;
		slack = s->cut ? servers_least(slack, p->sets[i].slack) : slack;
	}
	return slack;
}

/* Returns whether the rules may change from NOW to THEN: not if budgets are kept under NOW and
 * would not be under THEN; *WHY then says so. */
static inline bool promises_may_change(struct promises *p, const struct servers *s,
				       const struct admission *now, const struct admission *then,
				       const char **why)
{
	if (promises_are_kept(p, s, then) || !promises_are_kept(p, s, now))
		return true;
	*why = "guarantees that are kept now could not be kept with these parameters";
	return false;
}

/* Returns NULL, or a warning, static or in P's memory, that budgets may be missed because the
 * switch may be slower than when they were admitted. */
static inline const char *promises_warning(struct promises *p, const struct servers *s,
					   const struct admission *a)
{
	if (a->mode != ADMISSION_FULL)
		return "guarantees may be broken: admission is not full";
	if (promises_are_kept(p, s, a))
		return NULL;
	p->text.n = 0;
	text_add(&p->text, "guarantees are at risk: a world switch takes up to ");
	text_us(&p->text, a->switch_ns);
	text_add(&p->text, ", and with that they would not be admitted");
	return p->text.s;
}
