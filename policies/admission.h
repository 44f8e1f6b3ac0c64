/* SPDX-License-Identifier: MIT */
/*
 * Tests whether a set of servers (budget Q in each period T, deadlines at the ends of periods) is
 * schedulable by EDF, on an engine that takes time to switch and cannot be preempted at once.
 *
 *   C = Q + W       what a server costs in a period: its budget and its own switch in, and another
 *                   for each longest turn that is in Q
 *   R = W           to resume the server that it preempts: a job never preempts one of the same or
 *                   of a shorter period, so this counts where some period up to t is longer; what
 *                   runs in the background is resumed in the background's time
 *   A = late + carry   what a server may have had beyond its budgets, once: an overrun that it has
 *                   not paid back yet, and a rest of the period before. The server whose deadline
 *                   is checked has no unpaid overrun
 *   B = stretch + W what can hold the engine although its own deadline is later, or although it
 *                   has none: the switch to it, the least time a VF runs before it can be
 *                   preempted, how late it may then stop, and a hang or a window if budgets are to
 *                   hold across them
 *
 * There are two tests; a set is admitted if it passes one of them. At each period t:
 *   sum over T_j <= t of (C_j + R_j) / T_j + (sum over T_j <= t of A - late + B) / t <= 1
 * and at each deadline t up to the longest period, and beyond up to where it always holds:
 *   sum over T_j <= t of (floor(t / T_j) * C_j + A) + W * N - late + B <= t
 * In both tests, budgets and their switches take at most the cap in the long run. N is the number
 * of resumed jobs. It is limited by how long a server runs before others may interrupt it, which is
 * all the time that is spare at each t before the end of its own period. The first test (Baker
 * 1991) also holds for servers that sleep in the middle of a period and are given their bandwidth
 * for that time. The second (Baruah, Mok and Rosier 1990) admits more sets, but does not allow
 * that. docs/policies.md has the proof.
 *
 * No published GPU scheduler counts W; ignoring it admits sets that miss in 13 to 44 % of cases.
 */
#pragma once

#include "vgpu/policy.h"

static const char *const admission_modes[] = {"full", "switches", "sum", NULL};

#define ADMISSION_PARAM                                                                            \
	{                                                                                          \
		"admission", "",                                                                   \
			"full: budgets are kept; switches, sum: weaker tests, for comparison",     \
			VGPU_PARAM_CHOICE, 0, 2, ADMISSION_FULL, admission_modes                   \
	}

struct server {
	uint32_t vf;
	vgpu_nsec budget, period;
	/* For the second test: how long the server runs before others may interrupt it, by how much
	 * its job may be longer without one more interruption (admission_cut()), ns; how often
	 * others can interrupt a job, and how many jobs are considered so far. */
	vgpu_nsec piece, slack;
	uint64_t resumes, count;
};

enum admission_mode {
	ADMISSION_FULL = 0,
	ADMISSION_SWITCHES, /* sum of (Q + 2 W) / T: ignores blocking */
	ADMISSION_SUM, /* sum of Q / T, the published test: ignores switches, so that budgets may be
			  missed */
};

struct admission {
	enum admission_mode mode;
	vgpu_nsec switch_ns; /* the longest W */
	vgpu_nsec longest;   /* turn */
	bool pieces;	     /* servers run in pieces as long as others can spare, see cbs.piece */
	bool longer;	     /* reclaimed time may make jobs longer */
	vgpu_nsec run;	     /* the least time that a VF runs before it is preempted */
	vgpu_nsec stretch;   /* run, and everything that may come on top of it */
	vgpu_nsec late, carry;
	uint64_t cap_ppm;
};

/* How many longest periods the second test looks ahead; a set that needs more is refused. */
#define ADMISSION_HORIZON 16u

/* Returns C, in ns: the budget, the switch to it, and one for each longest turn that the budget
 * holds. */
static inline vgpu_nsec admission_cost(const struct admission *a, const struct server *s)
{
	return s->budget + (1 + s->budget / a->longest) * a->switch_ns;
}

/* Returns PART / WHOLE in millionths, rounded up. */
static inline uint64_t admission_ppm(vgpu_nsec part, vgpu_nsec whole)
{
	return (part * 1000000 + whole - 1) / whole;
}

/* Returns the longest period that is at most T. */
static inline vgpu_nsec admission_longest(const struct server *servers, uint32_t n, vgpu_nsec t)
{
	vgpu_nsec longest = 0;
	uint32_t j;

	for (j = 0; j < n; j++)
		if (servers[j].period <= t && servers[j].period > longest)
			longest = servers[j].period;
	return longest;
}

/* Returns the demand that occurs once, however long the time considered is, in ns: B, and A of each
 * server with a period of at most T, without the overrun of the server whose deadline is
 * considered. */
static inline vgpu_nsec admission_once(const struct admission *a, const struct server *servers,
				       uint32_t n, vgpu_nsec t)
{
	vgpu_nsec once = a->stretch + a->switch_ns + a->carry;
	uint32_t j, others = 0;

	for (j = 0; j < n; j++)
		others += servers[j].period <= t;
	return once + (others ? others - 1 : 0) * (a->late + a->carry);
}

/* Returns whether SERVERS pass the first test, in which the bandwidth of a server counts in full
 * from its first period on. */
static inline bool admission_by_rates(const struct admission *a, const struct server *servers,
				      uint32_t n)
{
	vgpu_nsec longest, t, cost;
	uint64_t sum, once;
	uint32_t j, k;

	for (k = 0; k < n; k++) {
		t = servers[k].period;
		longest = admission_longest(servers, n, t);
		once = admission_ppm(admission_once(a, servers, n, t), t);
		sum = 0;
		for (j = 0; j < n; j++) {
			cost = admission_cost(a, &servers[j]) +
			       (servers[j].period < longest ? a->switch_ns : 0);
			if (servers[j].period <= t)
				sum += admission_ppm(cost, servers[j].period);
		}
		if (sum > a->cap_ppm || sum + once > 1000000)
			return false;
	}
	return true;
}

/* Sorts SERVERS by period; they are nearly sorted already. */
static inline void admission_sort(struct server *servers, uint32_t n)
{
	struct server s;
	uint32_t i, k;

	for (i = 1; i < n; i++) {
		s = servers[i];
		for (k = i; k > 0 && servers[k - 1].period > s.period; k--)
			servers[k] = servers[k - 1];
		servers[k] = s;
	}
}

/*
 * Sets how long the pieces of server K's job may be if others can spare ROOM for one, and how often
 * the job can be interrupted at most: no more often than it has pieces, nor than jobs of shorter
 * periods fit into its period, with room on both sides. If its pieces limit the interruptions, a
 * job that is longer by x is interrupted at most x / slack times more: not at all while x is at
 * most the slack, then once for each further piece, and a piece is longer than the slack. SERVERS
 * are sorted by period.
 */
static inline void admission_cut(const struct admission *a, struct server *servers, uint32_t k,
				 vgpu_nsec room)
{
	vgpu_nsec whole = servers[k].budget + a->carry, most;
	uint64_t nested = 0, pieces;
	uint32_t j;

	for (j = 0; j < k && servers[j].period < servers[k].period; j++)
		nested += (servers[k].period - 1) / servers[j].period;
	most = a->longer ? 2 * whole : whole; /* 2 * whole leaves slack */
	servers[k].piece = a->pieces ? most < room ? most : room : 0;
	pieces = a->pieces ? (whole - 1) / servers[k].piece : UINT64_MAX;
	servers[k].resumes = nested < pieces ? nested : pieces;
	servers[k].slack = nested <= pieces ? VGPU_NEVER : (pieces + 1) * servers[k].piece - whole;
}

/*
 * Returns the largest number of resumed jobs. Each job interrupts at most one job of a longer
 * period, and each is interrupted at most `resumes` times. Jobs of short periods are assigned their
 * interruptions first, because the fewest jobs can interrupt them. SERVERS are sorted by period,
 * with their jobs in `count`.
 */
static inline uint64_t admission_resumed(const struct server *servers, uint32_t n)
{
	uint64_t resumed = 0, able = 0, equal = 0, most;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (i > 0 && servers[i].period > servers[i - 1].period) {
			able += equal;
			equal = 0;
		}
		most = servers[i].count * servers[i].resumes;
		most = most < able ? most : able;
		able -= most;
		resumed += most;
		equal += servers[i].count;
	}
	return resumed;
}

/* Returns the demand up to T, in ns, of the first N of SERVERS, whose periods are at most T. */
static inline uint64_t admission_demand(const struct admission *a, struct server *servers,
					uint32_t n, vgpu_nsec t)
{
	uint64_t demand = admission_once(a, servers, n, t);
	uint32_t j;

	for (j = 0; j < n; j++) {
		servers[j].count = t / servers[j].period;
		demand += servers[j].count * admission_cost(a, &servers[j]);
	}
	return demand + admission_resumed(servers, n) * a->switch_ns;
}

/* Returns the instant from which on the demand test always holds, because spare time outweighs the
 * demand that occurs once; 0 if there is none, or if it is beyond ADMISSION_HORIZON. */
static inline vgpu_nsec admission_horizon(const struct admission *a, struct server *servers,
					  uint32_t n)
{
	vgpu_nsec longest = servers[n - 1].period, end;
	uint64_t sum = 0;
	uint32_t j;

	for (j = 0; j < n; j++) {
		sum += admission_ppm(admission_cost(a, &servers[j]), servers[j].period);
		servers[j].count = admission_ppm(a->switch_ns, servers[j].period);
	}
	sum += admission_resumed(servers, n);
	if (sum > a->cap_ppm)
		return 0;
	end = admission_once(a, servers, n, longest) * 1000000 / (1000000 - sum + 1);
	if (end > ADMISSION_HORIZON * longest)
		return 0;
	return end > longest ? end : longest;
}

/* Returns the first deadline after T. */
static inline vgpu_nsec admission_next(const struct server *servers, uint32_t n, vgpu_nsec t)
{
	vgpu_nsec next = VGPU_NEVER, at;
	uint32_t j;

	for (j = 0; j < n; j++) {
		at = (t / servers[j].period + 1) * servers[j].period;
		next = at < next ? at : next;
	}
	return next;
}

/*
 * Returns whether SERVERS pass the second test, in which a budget counts when its deadline is
 * reached. A server may run without interruption for the least time that is spare at a deadline
 * before the end of its own period: see docs/policies.md. Sorts SERVERS, and sets their pieces.
 */
static inline bool admission_by_demand(const struct admission *a, struct server *servers,
				       uint32_t n)
{
	vgpu_nsec t = 0, end = VGPU_NEVER, room = VGPU_NEVER, has;
	uint64_t demand;
	uint32_t k = 0;

	admission_sort(servers, n);
	while (n && (t = admission_next(servers, n, t)) <= end) {
		for (; k < n && servers[k].period <= t; k++)
			admission_cut(a, servers, k, room);
		demand = admission_demand(a, servers, k, t);
		if (demand > t)
			return false;
		has = t - demand + a->run;
		room = has < room ? has : room;
		if (k == n && end == VGPU_NEVER && (end = admission_horizon(a, servers, n)) == 0)
			return false;
	}
	return true;
}

/* Returns whether all SERVERS, in any order, keep their deadlines. */
static inline bool admission_test(const struct admission *a, struct server *servers, uint32_t n)
{
	uint64_t sum = 0;
	uint32_t j;

	if (a->mode == ADMISSION_FULL)
		return admission_by_rates(a, servers, n) || admission_by_demand(a, servers, n);
	for (j = 0; j < n; j++)
		sum += admission_ppm(servers[j].budget +
					     (a->mode == ADMISSION_SWITCHES ? 2 * a->switch_ns : 0),
				     servers[j].period);
	return sum <= a->cap_ppm;
}

/* Returns by how much longer than the least run a server with a longer period than T may keep the
 * engine, in ns, because it runs in pieces. */
static inline vgpu_nsec admission_spared(const struct admission *a, const struct server *servers,
					 uint32_t n, vgpu_nsec t)
{
	vgpu_nsec longest = a->run;
	uint32_t j;

	for (j = 0; j < n; j++)
		if (servers[j].period > t && servers[j].piece > longest)
			longest = servers[j].piece;
	return longest - a->run;
}

/* Returns the largest part of a period that demand which occurs once takes, in millionths,
 * including what servers spare for the pieces of others. */
static inline uint64_t admission_reserve(const struct admission *a, const struct server *servers,
					 uint32_t n)
{
	uint64_t most = 0, part;
	vgpu_nsec t;
	uint32_t k;

	for (k = 0; k < n; k++) {
		t = servers[k].period;
		part = admission_ppm(admission_once(a, servers, n, t) +
					     admission_spared(a, servers, n, t),
				     t);
		most = part > most ? part : most;
	}
	return most;
}
