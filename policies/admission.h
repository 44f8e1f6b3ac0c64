/* SPDX-License-Identifier: MIT */
/*
 * Whether a set of servers (budget Q in each period T, deadlines at the ends of periods) is
 * schedulable by EDF on an engine that takes time to switch and cannot be taken away at once.
 *
 * What a server costs in a period (Q and what its turns cost in switches):
 *   C = Q + carry + W              its own switch in; carry: what it may have left over before
 *       + W, if some T is longer   to resume the one that it preempts: a job never preempts one
 *                                  of the same or of a shorter period, and what runs in the
 *                                  background is resumed in the background's time
 * What can hold the engine although its own deadline is later, or although it has none:
 *   B = stretch + 2 W              stretch: the least time a VF runs before it can be preempted,
 *                                  how late it may then stop, and a hang or a window if budgets
 *                                  are to hold across them. One for all: it also makes up for what
 *                                  servers overran, which they pay back, but not at once.
 *
 * First a sufficient test (EDF with blocking, Baker 1991), for each k in the order of periods
 *   sum over T_j <= T_k of C_j / T_j + B / T_k <= cap
 * and where that fails the exact demand (Baruah, Mok and Rosier 1990, with blocking), at each
 * deadline t up to the longest period, and on to B / (cap - sum of C / T), from where it holds by
 * itself:
 *   sum of floor(t / T_j) * C_j + B <= cap * t
 *
 * No published GPU scheduler counts W; ignoring it admits sets that miss in 13 to 44 % of cases.
 */
#ifndef POLICIES_ADMISSION_H
#define POLICIES_ADMISSION_H

#include "vgpu/policy.h"

static const char *const admission_modes[] = {"full", "switches", "sum", NULL};

#define ADMISSION_PARAM                                                                            \
	{                                                                                          \
		"admission", "",                                                                   \
			"full: kept; switches, sum: weaker tests, to compare: may be missed",      \
			VGPU_PARAM_CHOICE, 0, 2, ADMISSION_FULL, admission_modes                   \
	}

struct server {
	uint32_t vf;
	vgpu_nsec budget, period;
};

enum admission_mode {
	ADMISSION_FULL = 0,
	ADMISSION_SWITCHES, /* sum of (Q + 2 W) / T: blocking is left out */
	ADMISSION_SUM,	    /* sum of Q / T: what schedulers publish; budgets may be missed */
};

struct admission {
	enum admission_mode mode;
	vgpu_nsec switch_ns; /* W, at its worst */
	vgpu_nsec stretch, carry;
	uint64_t cap_ppm;
};

/* Longest periods that the exact test looks ahead; a set that would need more is refused. */
#define ADMISSION_HORIZON 16u

static inline vgpu_nsec admission_cost(const struct admission *a, const struct server *s,
				       vgpu_nsec longest)
{
	return s->budget + a->carry + a->switch_ns + (s->period < longest ? a->switch_ns : 0);
}

static inline vgpu_nsec admission_blocking(const struct admission *a)
{
	return a->stretch + 2 * a->switch_ns;
}

static inline bool admission_fits(const struct admission *a, uint64_t demand, vgpu_nsec t)
{
	return (unsigned __int128)demand * 1000000 <= (unsigned __int128)t * a->cap_ppm;
}

/* In millionths, rounded up. */
static inline uint64_t admission_ppm(vgpu_nsec part, vgpu_nsec whole)
{
	return (part * 1000000 + whole - 1) / whole;
}

static inline bool admission_sufficient(const struct admission *a, const struct server *servers,
					uint32_t n, vgpu_nsec longest)
{
	uint32_t j, k;

	for (k = 0; k < n; k++) {
		vgpu_nsec t = servers[k].period;
		uint64_t sum = admission_ppm(admission_blocking(a), t);

		for (j = 0; j < n; j++)
			if (servers[j].period <= t)
				sum += admission_ppm(admission_cost(a, &servers[j], longest),
						     servers[j].period);
		if (sum > a->cap_ppm)
			return false;
	}
	return true;
}

static inline bool admission_demand_fits(const struct admission *a, const struct server *servers,
					 uint32_t n, vgpu_nsec t, vgpu_nsec longest)
{
	uint64_t demand = admission_blocking(a);
	uint32_t j;

	for (j = 0; j < n; j++)
		demand += t / servers[j].period * admission_cost(a, &servers[j], longest);
	return admission_fits(a, demand, t);
}

/*
 * Whether all of them keep their deadlines. SERVERS in any order. The exact test looks at each
 * deadline within the horizon.
 */
static inline bool admission_test(const struct admission *a, const struct server *servers,
				  uint32_t n)
{
	vgpu_nsec longest = 0, t, end;
	uint64_t sum = 0;
	uint32_t j;

	for (j = 0; j < n; j++) {
		longest = servers[j].period > longest ? servers[j].period : longest;
		sum += admission_ppm(servers[j].budget +
					     (a->mode == ADMISSION_SWITCHES ? 2 * a->switch_ns : 0),
				     servers[j].period);
	}
	if (a->mode != ADMISSION_FULL)
		return sum <= a->cap_ppm;
	if (admission_sufficient(a, servers, n, longest))
		return true;
	for (j = 0, sum = 0; j < n; j++)
		sum += admission_ppm(admission_cost(a, &servers[j], longest), servers[j].period);
	if (sum > a->cap_ppm)
		return false;
	/* Blocking is outweighed from here on. */
	end = admission_blocking(a) * 1000000 / (a->cap_ppm - sum + 1);
	if (end > ADMISSION_HORIZON * longest)
		return false;
	end = end > longest ? end : longest;
	for (j = 0; j < n; j++)
		for (t = servers[j].period; t <= end; t += servers[j].period)
			if (!admission_demand_fits(a, servers, n, t, longest))
				return false;
	return true;
}

#endif
