/* SPDX-License-Identifier: MIT */
/*
 * Hard constant-bandwidth servers under EDF (Abeni and Buttazzo, RTSS '98; Linux: sched-deadline),
 * the engine behind `deadline` and behind the guarantees of `qos`. A server owns a budget in each
 * of its periods. While it has budget and work it competes by its deadline; without budget it
 * waits for the end of its period, so that one that wants more than it has cannot hurt others.
 * What it overruns is taken out of its next budget.
 */
#ifndef POLICIES_SERVERS_H
#define POLICIES_SERVERS_H

#include "admission.h"
#include "heap.h"
#include "text.h"

struct cbs {
	bool awake;
	vgpu_nsec budget, period; /* budget 0: no server */
	int64_t left;
	vgpu_nsec deadline;
	vgpu_nsec preempted_for; /* the deadline for which it has preempted already */
};

struct servers {
	const struct vgpu_facts *facts;
	struct cbs *cbs;       /* by VF */
	struct heap ready;     /* have budget and work, by deadline */
	struct heap exhausted; /* have work, by the end of the period */
	struct server *sets;   /* scratch, for admission */
	vgpu_nsec worst;       /* largest overrun so far */
	struct text text;
};

static inline size_t servers_memory(uint32_t max_vfs)
{
	return max_vfs * (sizeof(struct cbs) + sizeof(struct server)) + 2 * heap_memory(max_vfs);
}

static inline void *servers_init(struct servers *s, const struct vgpu_facts *facts, void *memory)
{
	s->facts = facts;
	s->cbs = memory;
	s->sets = (struct server *)(s->cbs + facts->max_vfs);
	memory = heap_init(&s->ready, s->sets + facts->max_vfs, facts->max_vfs);
	return heap_init(&s->exhausted, memory, facts->max_vfs);
}

/* A rest that is not worth a switch: it goes into the next budget. */
static inline int64_t servers_crumb(const struct servers *s)
{
	return (int64_t)(s->facts->min_slice_ns / 16);
}

static inline void servers_dequeue(struct servers *s, uint32_t index)
{
	heap_remove(&s->ready, index);
	heap_remove(&s->exhausted, index);
}

static inline void servers_queue(struct servers *s, uint32_t index)
{
	const struct cbs *c = &s->cbs[index];

	if (!c->awake || c->budget == 0)
		return;
	if (c->left > servers_crumb(s))
		heap_insert(&s->ready, index, c->deadline);
	else
		heap_insert(&s->exhausted, index, c->deadline);
}

/* At the end of its period a server gets its next budget, less what it overran. */
static inline void servers_replenish(struct cbs *c, int64_t crumb, vgpu_nsec now)
{
	vgpu_nsec periods = (now - c->deadline) / c->period + 1;

	c->deadline += periods * c->period;
	/* One that still owes after years of sleep does not exist: budgets add up to no more than
	 * what is owed. */
	if ((int64_t)c->budget > 0 && -c->left / (int64_t)c->budget > (int64_t)periods) {
		c->left += (int64_t)(periods * c->budget);
		return;
	}
	c->left += (int64_t)(periods * c->budget);
	if (c->left > (int64_t)c->budget + crumb)
		c->left = (int64_t)c->budget + crumb;
}

/* Budgets that are due by now. */
static inline void servers_advance(struct servers *s, vgpu_nsec now)
{
	uint32_t index;

	while ((index = heap_first(&s->exhausted)) != VGPU_NO_VF && s->cbs[index].deadline <= now) {
		heap_remove(&s->exhausted, index);
		servers_replenish(&s->cbs[index], servers_crumb(s), now);
		servers_queue(s, index);
	}
}

/* The wake-up rule: what is left of an old period may be used up to its deadline only as long as
 * that is no faster than budget / period. */
static inline void servers_wake(struct servers *s, uint32_t index, vgpu_nsec now)
{
	struct cbs *c = &s->cbs[index];

	c->awake = true;
	if (c->budget == 0)
		return;
	if (c->left > servers_crumb(s)) {
		if (c->deadline <= now ||
		    (unsigned __int128)c->left * c->period >
			    (unsigned __int128)(c->deadline - now) * c->budget) {
			c->deadline = now + c->period;
			c->left = (int64_t)c->budget;
		}
	} else if (c->deadline <= now) {
		/* Its debt is paid by the periods that it slept through; then a new one begins. */
		servers_replenish(c, servers_crumb(s), now);
		if (c->left >= (int64_t)c->budget)
			c->deadline = now + c->period;
	}
	servers_queue(s, index);
}

/*
 * Whether INDEX, which has just woken, is to take the engine from a server with the deadline
 * AGAINST (VGPU_NEVER: from one in the background). Once in each period: that is what admission
 * reckons with.
 */
static inline bool servers_preempts(struct servers *s, uint32_t index, vgpu_nsec against)
{
	struct cbs *c = &s->cbs[index];

	if (!heap_has(&s->ready, index) || c->deadline >= against ||
	    c->preempted_for == c->deadline)
		return false;
	c->preempted_for = c->deadline;
	return true;
}

static inline void servers_sleep(struct servers *s, uint32_t index)
{
	s->cbs[index].awake = false;
	servers_dequeue(s, index);
}

static inline void servers_charge(struct servers *s, uint32_t index, vgpu_nsec charge,
				  vgpu_nsec overrun)
{
	s->cbs[index].left -= (int64_t)charge;
	s->worst = overrun > s->worst ? overrun : s->worst;
	servers_queue(s, index);
}

/*
 * How long the server at hand may run: its budget, but no longer than to the instant at which
 * one that waits for its budget will have an earlier deadline.
 */
static inline vgpu_nsec servers_slice(const struct servers *s, uint32_t index, vgpu_nsec now)
{
	const struct cbs *c = &s->cbs[index], *other;
	vgpu_nsec slice = (vgpu_nsec)c->left, until = VGPU_NEVER;
	uint32_t i;

	for (i = 0; i < s->exhausted.n; i++) {
		other = &s->cbs[s->exhausted.entries[i].vf];
		if (other->deadline + other->period < c->deadline && other->deadline < until)
			until = other->deadline;
	}
	/* It starts after a switch. */
	now += s->facts->switch_ns;
	if (until != VGPU_NEVER && until > now + s->facts->min_slice_ns && until - now < slice)
		slice = until - now;
	else if (until != VGPU_NEVER && until <= now + s->facts->min_slice_ns &&
		 slice > s->facts->min_slice_ns)
		slice = s->facts->min_slice_ns;
	return slice;
}

static inline vgpu_nsec servers_next_budget(const struct servers *s)
{
	return s->exhausted.n ? s->exhausted.entries[0].key : VGPU_NEVER;
}

/*
 * The servers there would be with INDEX as a server of BUDGET in PERIOD (0: without it), in sets[];
 * returns how many.
 */
static inline uint32_t servers_with(struct servers *s, uint32_t index, vgpu_nsec budget,
				    vgpu_nsec period)
{
	uint32_t i, n = 0;

	for (i = 0; i < s->facts->max_vfs; i++)
		if (i != index && s->cbs[i].budget)
			s->sets[n++] = (struct server){i, s->cbs[i].budget, s->cbs[i].period};
	if (budget)
		s->sets[n++] = (struct server){index, budget, period};
	return n;
}

/*
 * Whether INDEX can have BUDGET in PERIOD beside the others; if not, a sentence in *WHY, with what
 * it could have. Changes nothing.
 */
static inline bool servers_admit(struct servers *s, const struct admission *a, uint32_t index,
				 vgpu_nsec budget, vgpu_nsec period, const char **why)
{
	vgpu_nsec low = 0, high = budget, middle;
	uint32_t n;

	s->text.n = 0;
	s->text.s[0] = '\0';
	if (budget < s->facts->min_slice_ns) {
		text_add(&s->text, "a budget of ");
		text_ms(&s->text, budget);
		text_add(&s->text,
			 " is less than the shortest slice; with this share the period has "
			 "to be at least ");
		text_ms(&s->text, budget ? (vgpu_nsec)((unsigned __int128)period *
						       s->facts->min_slice_ns / budget)
					 : period);
		*why = s->text.s;
		return false;
	}
	n = servers_with(s, index, budget, period);
	if (admission_test(a, s->sets, n))
		return true;
	s->sets[n - 1].budget = s->facts->min_slice_ns;
	if (admission_test(a, s->sets, n))
		low = s->facts->min_slice_ns;
	while (low && high - low > VGPU_USEC) {
		middle = low + (high - low) / 2;
		s->sets[n - 1].budget = middle;
		if (admission_test(a, s->sets, n))
			low = middle;
		else
			high = middle;
	}
	text_add(&s->text, "not enough time beside what is promised to others, with switches of ");
	text_ms(&s->text, a->switch_ns);
	text_add(&s->text, "; the most that fits into this period is ");
	text_number(&s->text, low / VGPU_USEC);
	text_add(&s->text, " us");
	*why = s->text.s;
	return false;
}

/* What admission reckons with; MORE: what may hold the engine besides a run that has just begun. */
static inline struct admission servers_rules(const struct servers *s, int64_t mode, int64_t cap_pct,
					     vgpu_nsec more)
{
	const struct vgpu_facts *f = s->facts;

	return (struct admission){
		.mode = (enum admission_mode)mode,
		.switch_ns = f->switch_high_ns,
		.stretch =
			(f->min_slice_ns > f->min_run_ns ? f->min_slice_ns : f->min_run_ns) + more,
		.carry = (vgpu_nsec)servers_crumb(s),
		.cap_ppm = (uint64_t)cap_pct * 10000,
	};
}

static inline bool servers_are_kept(struct servers *s, const struct admission *a)
{
	return admission_test(a, s->sets, servers_with(s, VGPU_NO_VF, 0, 0));
}

/* Whether rules may change: not if budgets are kept now and would not be then. */
static inline bool servers_may_change(struct servers *s, const struct admission *now,
				      const struct admission *then, const char **why)
{
	if (servers_are_kept(s, then) || !servers_are_kept(s, now))
		return true;
	*why = "what has been promised could not be kept with these";
	return false;
}

/* NULL, or why promises may be broken: the switch may be slower than it was when they were made. */
static inline const char *servers_warning(struct servers *s, const struct admission *a)
{
	if (a->mode != ADMISSION_FULL)
		return "promises may be broken: admission is not full";
	if (servers_are_kept(s, a))
		return NULL;
	s->text.n = 0;
	text_add(&s->text, "guarantees are at risk: a world switch takes up to ");
	text_ms(&s->text, a->switch_ns);
	text_add(&s->text, ", with which they would not be given again");
	return s->text.s;
}

/* New budget and period. The period that it is in ends as it was, with the smaller of both budgets.
 */
static inline void servers_set(struct servers *s, uint32_t index, vgpu_nsec budget,
			       vgpu_nsec period, bool dispatched, vgpu_nsec now)
{
	struct cbs *c = &s->cbs[index];

	servers_dequeue(s, index);
	c->budget = budget;
	c->period = period;
	if (c->left > (int64_t)budget)
		c->left = (int64_t)budget;
	if (c->deadline > now + period)
		c->deadline = now + period;
	if (!dispatched)
		servers_queue(s, index);
}

#endif
