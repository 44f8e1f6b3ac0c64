/* SPDX-License-Identifier: MIT */
#include "turns.h"

/* V710's asymmetric_timeslice takes steps of 100 us up to 1 s; its driver's own default is 6 ms for
 * two VFs. A quantum below 1 ms would be mostly world switches. */
const struct turns_range turns_quanta = {VGPU_MSEC, VGPU_SEC, 100 * VGPU_USEC};
const struct turns_range turns_timeouts = {VGPU_MSEC, 10 * VGPU_SEC, 100 * VGPU_USEC};
#define FIRST_QUANTUM (6 * VGPU_MSEC)
#define FIRST_TIMEOUT (16 * VGPU_MSEC)

static vgpu_nsec clamp(const struct turns_range *range, vgpu_nsec value)
{
	if (value < range->min)
		return range->min;
	if (value > range->max)
		return range->max;
	return value - value % range->step;
}

void turns_init(struct turns *t, uint32_t n, vgpu_nsec now)
{
	uint32_t i;

	*t = (struct turns){.n = n,
			    .current = TURNS_NOBODY,
			    .last = TURNS_NOBODY,
			    .counted = TURNS_NOBODY,
			    .since = now};
	for (i = 0; i < n; i++) {
		t->plan.vfs[i].quantum = FIRST_QUANTUM;
		t->plan.vfs[i].timeout = FIRST_TIMEOUT;
	}
}

void turns_program(struct turns *t, const struct turns_plan *plan)
{
	uint32_t i;

	t->plan.keep = plan->keep;
	for (i = 0; i < t->n; i++) {
		t->plan.vfs[i].quantum = clamp(&turns_quanta, plan->vfs[i].quantum);
		t->plan.vfs[i].timeout = clamp(&turns_timeouts, plan->vfs[i].timeout);
	}
}

/* Returns the VFs that have a turn in this rotation. */
static uint32_t entitled(const struct turns *t, uint32_t wants)
{
	uint32_t all = (1u << t->n) - 1;

	return t->plan.keep && wants ? all : wants & all;
}

int turns_begin(struct turns *t, uint32_t wants, vgpu_nsec now)
{
	uint32_t who = entitled(t, wants), next = 0, i;

	t->current = TURNS_NOBODY;
	if (who == 0)
		return TURNS_NOBODY;
	for (i = 1; i <= t->n; i++) {
		next = (uint32_t)(t->last + (int)i) % t->n;
		if (who >> next & 1)
			break;
	}
	t->current = t->last = (int)next;
	t->ends = now + t->plan.vfs[next].quantum;
	t->turns[next]++;
	return t->current;
}

bool turns_others(const struct turns *t, uint32_t wants)
{
	return entitled(t, wants) & ~(1u << t->current);
}

bool turns_is_over(const struct turns *t, uint32_t wants, vgpu_nsec now)
{
	bool wanted = wants >> t->current & 1;

	return now >= t->ends || (!wanted && !t->plan.keep && turns_others(t, wants));
}

void turns_count(struct turns *t, int vf, vgpu_nsec now)
{
	if (t->counted != TURNS_NOBODY)
		t->active[t->counted] += now - t->since;
	t->counted = vf;
	t->since = now;
}

vgpu_nsec turns_active(const struct turns *t, uint32_t vf, vgpu_nsec now)
{
	return t->active[vf] + (t->counted == (int)vf ? now - t->since : 0);
}
