/* SPDX-License-Identifier: MIT */
/*
 * What policies promise and what they give, in virtual time: shares, lag within the stated bound,
 * waits, isolation, and that no VF gains by tricks.
 */
#include <math.h>
#include <stdlib.h>

#include "builtin.h"
#include "suite.h"
#include "vhost.h"

static struct vhost h;

/* A machine with switches that take time, and VF `late` always 1 to 2 ms late. */
static void machine(uint32_t n, uint64_t seed, uint32_t late)
{
	uint32_t i;

	vhost_init(&h, n, seed);
	h.load = (struct vhost_range){100000, 100000};
	h.run = (struct vhost_range){50000, 50000};
	for (i = 0; i < n; i++) {
		h.vfs[i].late = (struct vhost_range){20000, 20000};
		h.vfs[i].save = (struct vhost_range){100000, 100000};
	}
	if (late < n)
		h.vfs[late].late = (struct vhost_range){VGPU_MSEC, 2 * VGPU_MSEC};
}

static double share_of(uint32_t vf)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < h.n_vfs; i++)
		sum += (double)vhost_service(&h, i);
	return (double)vhost_service(&h, vf) / sum;
}

static double promised(uint32_t vf)
{
	struct vgpu_vf_view v;

	vgpu_core_vf_view(h.core, vf, &v);
	return (double)v.share_numerator / (double)v.share_denominator;
}

static void done(void)
{
	CU_ASSERT_EQUAL(h.violations, 0);
	vhost_finish(&h);
}

static bool is_proportional(const struct vgpu_policy_ops *p)
{
	return p->promises & VGPU_PROMISE_PROPORTIONAL;
}

/* One VF is late every time; over a minute each VF gets its share all the same. */
TEST(late_vf, "shares beside a VF that is always late")
{
	unsigned p, i;

	for (p = 0; vgpu_builtin_policies[p]; p++) {
		if (!is_proportional(vgpu_builtin_policies[p]))
			continue;
		machine(4, 1, 3);
		h.work_from = 100 * VGPU_MSEC; /* all are up by then */
		vhost_start(&h, vhost_checked(vgpu_builtin_policies[p], &h), NULL, NULL);
		vhost_run(&h, 60 * VGPU_SEC);
		for (i = 0; i < 4; i++)
			CU_ASSERT(fabs(share_of(i) - 0.25) < 0.25 * 0.001);
		done();
	}
}

/* Seven VFs take exclusive windows of almost a second back to back. The eighth has its share of ten
 * minutes, whatever the policy; its budget, where it has one. */
TEST(beside_windows, "shares beside exclusive windows")
{
	static const struct {
		const char *policy, *name;
		int64_t value, period_us;
		double share;
	} of[] = {
		{"fair", "", 0, 0, 1.0 / 8},
		{"wdrr", "", 0, 0, 1.0 / 8},
		{"strict", "", 0, 0, 0.88 / 8}, /* of its slots; the rest switches */
		{"equal", "", 0, 0, 1.0 / 8},
		{"prio", "", 0, 0, 1.0 / 8},
		{"best-effort", "", 0, 0, 1.0 / 8},
		{"qos", "", 0, 0, 1.0 / 8},
		{"qos", "max_ppm", 100000, 0, 0.1},
		{"deadline", "", 0, 0, 1.0 / 8},
		{"deadline", "budget_us", 5000, 60000, 1.0 / 12},
		{"qos", "min_ppm", 80000, 0, 0.08},
	};
	const double ms = 1e6, ten_minutes = 600e9;
	int64_t rows[8][VGPU_MAX_PARAMS];
	double had, least;
	unsigned k, i;

	for (k = 0; k < sizeof(of) / sizeof(of[0]); k++) {
		const struct vgpu_policy_ops *policy = vgpu_builtin_policy(of[k].policy);

		machine(8, 60 + k, VGPU_NO_VF);
		h.init = (struct vhost_range){10 * VGPU_MSEC, 10 * VGPU_MSEC};
		h.work_from = 10 * VGPU_SEC;
		for (i = 0; i < 8; i++) {
			vgpu_param_defaults(policy->vf_params, rows[i]);
			vhost_param(policy->vf_params, rows[i], of[k].name, of[k].value);
			vhost_param(policy->vf_params, rows[i], "period_us", of[k].period_us);
			h.vfs[i].work = i ? VHOST_WINDOWS : VHOST_ALWAYS;
			h.vfs[i].window = (struct vhost_range){i ? 990 * VGPU_MSEC : 0,
							       i ? 990 * VGPU_MSEC : 0};
		}
		vhost_start(&h, vhost_checked(policy, &h), NULL,
			    (const int64_t(*)[VGPU_MAX_PARAMS])rows);
		vhost_run(&h, 610 * VGPU_SEC);
		had = (double)vhost_service(&h, 0);
		/* Each other VF may take a window, and half a second, ahead. */
		least = 0.98 * (of[k].share * ten_minutes - 7 * 1500 * ms);
		if (had < least)
			printf("\n  %s %s: %.1f %% of its share\n", of[k].policy, of[k].name,
			       100 * had / (of[k].share * ten_minutes));
		CU_ASSERT(had >= least);
		done();
	}
}

/* Without charges, the late VF gains: the charge prevents that. */
TEST(late_vf_uncharged, "without charging it would win")
{
	machine(4, 1, VGPU_NO_VF);
	h.vfs[3].late = (struct vhost_range){0, 20 * VGPU_MSEC};
	vhost_start(&h, vgpu_builtin_policy("best-effort"), NULL, NULL);
	vhost_run(&h, 20 * VGPU_SEC);
	CU_ASSERT(share_of(3) > 0.30);
	done();
}

TEST(weights, "weights and slots")
{
	static const int64_t fair[4][VGPU_MAX_PARAMS] = {{800}, {400}, {100}, {100}};
	static const int64_t slots[4][VGPU_MAX_PARAMS] = {{8}, {4}, {1}, {1}};
	unsigned i, p;

	for (p = 0; p < 2; p++) {
		machine(4, 2, 1);
		vhost_start(&h, vgpu_builtin_policy(p ? "strict" : "fair"), NULL, p ? slots : fair);
		vhost_run(&h, 60 * VGPU_SEC);
		for (i = 0; i < 4; i++)
			CU_ASSERT(fabs(share_of(i) - promised(i)) < promised(i) * 0.002);
		CU_ASSERT(fabs(promised(0) - 8.0 / 14) < 1e-9);
		done();
	}
}

/* The largest lag over its bound; lag: the difference to a VF's share of all service so far. */
static double worst_lag_over_bound(void)
{
	double worst = 0, total = 0, lag;
	struct vgpu_vf_view v;
	uint32_t i;

	for (i = 0; i < h.n_vfs; i++) {
		vgpu_core_vf_view(h.core, i, &v);
		total += (double)(v.ledger.charged_ns + v.pending_ns);
	}
	for (i = 0; i < h.n_vfs; i++) {
		vgpu_core_vf_view(h.core, i, &v);
		lag = total * promised(i) - (double)(v.ledger.charged_ns + v.pending_ns);
		lag = fabs(lag) / (double)v.bound.max_lag;
		worst = lag > worst ? lag : worst;
	}
	return worst;
}

/* Random weights, lateness and rare huge overruns, all backlogged: lag stays within the bound. */
TEST(lag_within_bound, "lag stays within the stated bound")
{
	static int64_t rows[64][VGPU_MAX_PARAMS];
	double worst;
	unsigned p, seed, i;
	vgpu_nsec t;

	for (p = 0; vgpu_builtin_policies[p]; p++) {
		const struct vgpu_policy_ops *policy = vgpu_builtin_policies[p];

		if (!is_proportional(policy))
			continue;
		worst = 0;
		for (seed = 1; seed <= 20; seed++) {
			machine(1 + seed % 12, seed, seed % 12);
			for (i = 0; i < h.n_vfs; i++) {
				if (seed % 3 == 0)
					h.vfs[i].late = (struct vhost_range){0, 4 * VGPU_MSEC};
				vgpu_param_defaults(policy->vf_params, rows[i]);
				vhost_param(policy->vf_params, rows[i], "slots",
					    1 + (int64_t)(vhost_random(&h) % 4));
				vhost_param(policy->vf_params, rows[i], "weight",
					    10 + (int64_t)(vhost_random(&h) % 1000));
				if (vhost_random(&h) % 2)
					vhost_param(policy->vf_params, rows[i], "latency_slice_us",
						    500 + (int64_t)(vhost_random(&h) % 8000));
			}
			/* All VFs are up before the first has work, so that the model begins equal.
			 */
			h.work_from = 100 * VGPU_MSEC;
			vhost_start(&h, vhost_checked(policy, &h), NULL, rows);
			for (t = VGPU_SEC; t < 12 * VGPU_SEC && h.violations == 0;
			     t += 777 * VGPU_USEC) {
				vhost_run(&h, t);
				worst = fmax(worst, worst_lag_over_bound());
			}
			done();
		}
		printf("[%s: lag/bound %.3f] ", policy->name, worst);
		CU_ASSERT(worst <= 1.0);
	}
}

/* A VF with work runs within the wait that the policy states. */
TEST(waits_within_bound, "waits stay within the stated bound")
{
	struct vgpu_vf_view v;
	unsigned p, seed, i;

	for (p = 0; vgpu_builtin_policies[p]; p++) {
		if (!(vgpu_builtin_policies[p]->promises & VGPU_PROMISE_NO_STARVATION))
			continue;
		for (seed = 1; seed <= 20; seed++) {
			machine(2 + seed % 10, seed, 0);
			for (i = 1; i < h.n_vfs; i += 2) {
				h.vfs[i].work = VHOST_BURSTS;
				h.vfs[i].burst = (struct vhost_range){100000, 5 * VGPU_MSEC};
				h.vfs[i].think = (struct vhost_range){0, 30 * VGPU_MSEC};
			}
			vhost_start(&h, vhost_checked(vgpu_builtin_policies[p], &h), NULL, NULL);
			vhost_run(&h, 10 * VGPU_SEC);
			for (i = 0; i < h.n_vfs; i++) {
				vgpu_core_vf_view(h.core, i, &v);
				CU_ASSERT(v.ledger.dispatches > 10);
				CU_ASSERT(v.ledger.wait_max_ns <= v.bound.max_wait);
			}
			done();
		}
	}
}

/* Starts of VF 0 under strict with idle=hold, while VF 1 behaves as told. */
static size_t starts_of_a(enum vhost_work other, struct vhost_dispatch *log, size_t max)
{
	size_t n = 0, i;

	machine(3, 9, VGPU_NO_VF);
	h.init = (struct vhost_range){0, 0};
	h.window = (struct vhost_range){0, 0};
	h.vfs[1].work = other;
	h.vfs[1].burst = (struct vhost_range){300000, 3 * VGPU_MSEC};
	h.vfs[1].think = (struct vhost_range){100000, 9 * VGPU_MSEC};
	h.log = log;
	h.log_max = max;
	vhost_start(&h, vgpu_builtin_policy("strict"), NULL, NULL);
	vhost_run(&h, 5 * VGPU_SEC);
	for (i = 0; i < h.log_n; i++)
		if (log[i].vf == 0)
			log[n++] = log[i];
	done();
	return n;
}

/* Non-interference: the turns of VF 0 do not depend on what VF 1 does. */
TEST(strict_hides_others, "strict: others cannot be told apart")
{
	static struct vhost_dispatch log[3][20000];
	static const enum vhost_work others[] = {VHOST_ALWAYS, VHOST_BURSTS, VHOST_NEVER};
	size_t n[3], i, j, first;
	unsigned k;

	for (k = 0; k < 3; k++)
		n[k] = starts_of_a(others[k], log[k], 20000);
	/* The first rounds learn how long a switch and a preemption take; later turns are exact. */
	for (k = 1; k < 3; k++) {
		for (first = 0; first < n[0] && log[0][first].start < VGPU_SEC; first++)
			;
		for (j = 0; j < n[k] && log[k][j].start < VGPU_SEC; j++)
			;
		CU_ASSERT(n[0] - first > 500 && n[0] - first == n[k] - j);
		for (i = 0; first + i < n[0] && j + i < n[k]; i++) {
			CU_ASSERT_EQUAL(log[k][j + i].start - log[k][j].start,
					log[0][first + i].start - log[0][first].start);
			CU_ASSERT_EQUAL(log[k][j + i].end - log[k][j + i].start,
					log[0][first + i].end - log[0][first + i].start);
		}
	}
}

/* Strict boundaries: the k-th turn is at k rounds from the first, without drift. */
TEST(strict_does_not_drift, "strict: boundaries do not drift")
{
	static struct vhost_dispatch log[200000];
	const vgpu_nsec round = 4 * (2 * VGPU_MSEC + 250000);
	size_t n = 0, i, first = 0;

	machine(4, 11, VGPU_NO_VF);
	h.log = log;
	h.log_max = 200000;
	vhost_start(&h, vgpu_builtin_policy("strict"), NULL, NULL);
	vhost_run(&h, 100 * VGPU_SEC);
	for (i = 0; i < h.log_n; i++) {
		if (log[i].vf != 2)
			continue;
		if (!first && log[i].start > VGPU_SEC)
			first = i;
		if (!first)
			continue;
		CU_ASSERT_EQUAL(log[i].start - log[first].start, n * round);
		n++;
	}
	CU_ASSERT(n > 10000);
	done();
}

static double idle_share(const char *mode, double *others)
{
	const struct vgpu_policy_ops *strict = vgpu_builtin_policy("strict");
	int64_t params[VGPU_MAX_PARAMS];
	struct vgpu_core_view view;
	struct vgpu_vf_view v;

	machine(4, 12, VGPU_NO_VF);
	vgpu_param_defaults(strict->params, params);
	vhost_param(strict->params, params, "idle",
		    strcmp(mode, "hold") == 0	  ? 0
		    : strcmp(mode, "donate") == 0 ? 1
						  : 2);
	h.vfs[3].work = VHOST_NEVER;
	vhost_start(&h, vhost_checked(strict, &h), params, NULL);
	vhost_run(&h, 20 * VGPU_SEC);
	vgpu_core_view(h.core, &view);
	vgpu_core_vf_view(h.core, 0, &v);
	*others = (double)v.ledger.donated_ns / (double)h.now;
	done();
	return (double)view.engine.idle_ns / (double)h.now;
}

/* The slot of a VF without work: held empty, donated, or left out. */
TEST(strict_idle_modes, "strict: idle modes")
{
	double donated;

	CU_ASSERT(idle_share("hold", &donated) > 0.22);
	CU_ASSERT_EQUAL(donated, 0);
	CU_ASSERT(idle_share("donate", &donated) < 0.05);
	CU_ASSERT(donated > 0.03);
	CU_ASSERT(idle_share("compress", &donated) < 0.01);
	CU_ASSERT_EQUAL(donated, 0);
}

/* Sleeping just before the account, waking in storms, and tiny jobs bring no more than the share.
 */
TEST(tricks_gain_nothing, "tricks gain nothing")
{
	static const struct {
		struct vhost_range burst, think;
	} tricks[] = {
		{{1900000, 1999000}, {1000, 1000}},
		{{10000, 20000}, {1000, 5000}},
		{{100000, 4000000}, {0, 200000}},
		{{3990000, 3999000}, {100000, 120000}},
	};
	unsigned p, t, i;
	double mine, rest;

	for (p = 0; vgpu_builtin_policies[p]; p++) {
		if (!is_proportional(vgpu_builtin_policies[p]))
			continue;
		for (t = 0; t < 4; t++) {
			machine(4, 13 + t, VGPU_NO_VF);
			h.vfs[0].work = VHOST_BURSTS;
			h.vfs[0].burst = tricks[t].burst;
			h.vfs[0].think = tricks[t].think;
			vhost_start(&h, vhost_checked(vgpu_builtin_policies[p], &h), NULL, NULL);
			vhost_run(&h, 20 * VGPU_SEC);
			mine = (double)vhost_service(&h, 0);
			for (rest = 0, i = 1; i < 4; i++)
				rest += (double)vhost_service(&h, i) / 3;
			/* at most one slice a second more than an honest neighbour */
			CU_ASSERT(mine <= rest + 20 * 4e6);
			done();
		}
	}
}

/* A VF with a shorter latency slice is served sooner; it does not get more. */
TEST(latency_slice, "fair: a latency slice buys latency, not share")
{
	static int64_t rows[4][VGPU_MAX_PARAMS] = {{100}, {100}, {100}, {100}};
	const struct vgpu_policy_ops *fair = vgpu_builtin_policy("fair");
	int64_t params[VGPU_MAX_PARAMS];
	vgpu_nsec wait[2];
	struct vgpu_vf_view v;
	unsigned k;

	vgpu_param_defaults(fair->params, params);
	for (k = 0; k < 2; k++) {
		rows[0][1] = k ? 500 : 0;
		machine(4, 14, VGPU_NO_VF);
		h.vfs[0].work = VHOST_BURSTS;
		h.vfs[0].burst = (struct vhost_range){200000, 200000};
		h.vfs[0].think = (struct vhost_range){15 * VGPU_MSEC, 18 * VGPU_MSEC};
		vhost_start(&h, fair, params, rows);
		vhost_run(&h, 20 * VGPU_SEC);
		vgpu_core_vf_view(h.core, 0, &v);
		wait[k] = v.ledger.wait_ns / v.ledger.dispatches;
		CU_ASSERT(share_of(0) < 0.25);
		done();
	}
	printf("[mean wait %.2f ms, with a short request %.2f ms] ", (double)wait[0] / 1e6,
	       (double)wait[1] / 1e6);
	CU_ASSERT(wait[1] < wait[0] / 2);
}

/* A VF does not lose its debt by sleeping. */
TEST(debt_survives_sleep, "debt survives sleep")
{
	unsigned p;

	for (p = 0; vgpu_builtin_policies[p]; p++) {
		if (!is_proportional(vgpu_builtin_policies[p]))
			continue;
		machine(2, 15, VGPU_NO_VF);
		h.vfs[0].work = VHOST_BURSTS;
		h.vfs[0].burst = (struct vhost_range){100000, 3 * VGPU_MSEC};
		h.vfs[0].think = (struct vhost_range){1000, 300000};
		h.vfs[0].late = (struct vhost_range){0, 8 * VGPU_MSEC};
		vhost_start(&h, vhost_checked(vgpu_builtin_policies[p], &h), NULL, NULL);
		vhost_run(&h, 30 * VGPU_SEC);
		CU_ASSERT(share_of(0) < 0.51);
		done();
	}
}

/* A VF that hangs delays the others each time by at most grace and reset. */
TEST(hangs_delay_boundedly, "hangs delay others boundedly")
{
	struct vgpu_vf_view v, culprit;
	unsigned p, i;

	for (p = 0; vgpu_builtin_policies[p]; p++) {
		if (!(vgpu_builtin_policies[p]->promises & VGPU_PROMISE_NO_STARVATION))
			continue;
		machine(4, 17, VGPU_NO_VF);
		h.reset = (struct vhost_range){20 * VGPU_MSEC, 20 * VGPU_MSEC};
		h.vfs[3].hang_ppm = 100000;
		vhost_start(&h, vhost_checked(vgpu_builtin_policies[p], &h), NULL, NULL);
		vhost_run(&h, 20 * VGPU_SEC);
		vgpu_core_vf_view(h.core, 3, &culprit);
		CU_ASSERT_EQUAL(culprit.ledger.hangs, 3);
		CU_ASSERT_EQUAL(culprit.state, VGPU_VF_QUARANTINED);
		for (i = 0; i < 3; i++) {
			vgpu_core_vf_view(h.core, i, &v);
			CU_ASSERT(v.ledger.wait_max_ns <=
				  v.bound.max_wait + h.config.grace + 20 * VGPU_MSEC);
		}
		done();
	}
}

/* The same seed makes the same decisions, another seed makes others. */
TEST(determinism, "determinism")
{
	uint64_t hash[3];
	unsigned p, k;

	for (p = 0; vgpu_builtin_policies[p]; p++) {
		for (k = 0; k < 3; k++) {
			machine(6, k < 2 ? 21 : 22, 2);
			h.vfs[4].work = VHOST_BURSTS;
			h.vfs[4].burst = (struct vhost_range){1000, 9 * VGPU_MSEC};
			h.vfs[4].think = (struct vhost_range){0, 9 * VGPU_MSEC};
			h.vfs[1].hang_ppm = 500;
			vhost_start(&h, vgpu_builtin_policies[p], NULL, NULL);
			vhost_run(&h, 10 * VGPU_SEC);
			hash[k] = h.hash;
			done();
		}
		CU_ASSERT_EQUAL(hash[0], hash[1]);
		CU_ASSERT_NOT_EQUAL(hash[0], hash[2]);
	}
}

/* All weights times ten, VFs in another order, one more that never has work: the same shares. */
TEST(metamorphic, "metamorphic: scale, order, bystanders")
{
	static const int64_t base[4][VGPU_MAX_PARAMS] = {{100}, {300}, {200}, {50}};
	int64_t rows[5][VGPU_MAX_PARAMS];
	double shares[3][4];
	unsigned k, i;

	for (k = 0; k < 3; k++) {
		memset(rows, 0, sizeof(rows));
		for (i = 0; i < 4; i++)
			rows[k == 1 ? 3 - i : i][0] = base[i][0] * (k == 0 ? 10 : 1);
		rows[4][0] = 100;
		machine(k == 2 ? 5 : 4, 31, VGPU_NO_VF);
		if (k == 2)
			h.vfs[4].work = VHOST_NEVER;
		vhost_start(&h, vgpu_builtin_policy("fair"), NULL, rows);
		vhost_run(&h, 60 * VGPU_SEC);
		for (i = 0; i < 4; i++)
			shares[k][i] = share_of(k == 1 ? 3 - i : i);
		done();
	}
	for (i = 0; i < 4; i++) {
		CU_ASSERT(fabs(shares[0][i] - shares[1][i]) < 0.001);
		CU_ASSERT(fabs(shares[0][i] - shares[2][i]) < 0.001);
	}
}

/* A change of policy in mid-run loses no VF, and keeps each VF's service. */
TEST(change_of_policy, "change of policy")
{
	struct vgpu_core_view view;
	vgpu_nsec before[4];
	unsigned p, i;

	machine(4, 41, 1);
	vhost_start(&h, vgpu_builtin_policy("fair"), NULL, NULL);
	for (p = 0; p < 40; p++) {
		vhost_run(&h, h.now + 500 * VGPU_MSEC);
		for (i = 0; i < 4; i++)
			before[i] = vhost_service(&h, i);
		CU_ASSERT_EQUAL(vhost_change_policy(&h, vgpu_builtin_policies[p % 3], NULL, NULL),
				0);
		for (i = 0; i < 4; i++)
			CU_ASSERT(vhost_service(&h, i) >= before[i]);
	}
	vgpu_core_view(h.core, &view);
	CU_ASSERT_EQUAL(view.engine.evictions, 0);
	for (i = 0; i < 4; i++)
		CU_ASSERT(fabs(share_of(i) - 0.25) < 0.25 * 0.02);
	done();
}

/* How a guarantee is asked for, what is too much, and in which words the refusal offers less. */
static const struct asked {
	const char *policy, *param;
	int64_t has, wants;
	const char *offer, *unit;
	double scale; /* of the offer's unit to the parameter's */
} asked[] = {
	{"deadline", "budget_us", 6000, 25000,
	 "the largest budget_us that fits into this period is ", " us", 1},
	{"qos", "min_ppm", 180000, 800000, "the largest min that fits into this period is ", " %",
	 1e4},
	{"qos", "frame_us", 3000, 16000, "the largest frame_us that fits into this period is ",
	 " us", 1},
};

/* A refused change changes nothing: all later decisions are as without it; and the largest that the
 * refusal offers, in the unit in which it was asked for, is accepted. */
static uint64_t with_refusal(const struct asked *a, bool ask, int64_t *offered)
{
	const struct vgpu_policy_ops *policy = vgpu_builtin_policy(a->policy);
	bool frames = strcmp(a->param, "frame_us") == 0;
	int64_t rows[4][VGPU_MAX_PARAMS], values[VGPU_MAX_PARAMS];
	struct vgpu_event event = {.type = VGPU_EV_SET_VF, .vf = 2, .params = values};
	const char *number;
	uint64_t hash;
	unsigned i;
	char *end;

	machine(4, 77, 1);
	for (i = 0; i < 4; i++) {
		vgpu_param_defaults(policy->vf_params, rows[i]);
		if (i < 3)
			vhost_param(policy->vf_params, rows[i], a->param, a->has);
		vhost_param(policy->vf_params, rows[i], "fps", frames && i < 3 ? 60 : 0);
	}
	vhost_start(&h, policy, NULL, rows);
	vhost_run(&h, VGPU_SEC);
	memcpy(values, rows[2], sizeof(values));
	vhost_param(policy->vf_params, values, a->param, a->wants);
	if (ask) {
		CU_ASSERT_EQUAL(vhost_event(&h, &event), -22);
		CU_ASSERT_PTR_NOT_NULL_FATAL(h.out.why);
		number = strstr(h.out.why, a->offer);
		CU_ASSERT_PTR_NOT_NULL_FATAL(number);
		*offered = llround(strtod(number + strlen(a->offer), &end) * a->scale);
		CU_ASSERT_STRING_EQUAL(end, a->unit);
	}
	vhost_run(&h, 3 * VGPU_SEC);
	hash = h.hash;
	if (ask) {
		vhost_param(policy->vf_params, values, a->param, *offered);
		CU_ASSERT_EQUAL(vhost_event(&h, &event), 0);
	}
	done();
	return hash;
}

TEST(refusals, "what is refused changes nothing")
{
	int64_t offered = 0;
	unsigned i;

	for (i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		CU_ASSERT_EQUAL(with_refusal(&asked[i], true, &offered),
				with_refusal(&asked[i], false, NULL));
		CU_ASSERT(offered > asked[i].has && offered < asked[i].wants);
	}
}

/* One turn of the next VF, in which VF 3 overruns its grant; returns when it is over. */
static vgpu_nsec late_turn(const struct vgpu_policy_ops *policy, void *state, vgpu_nsec t)
{
	struct vgpu_pick pick = {.vf = VGPU_NO_VF, .park_until = VGPU_NEVER};
	struct vgpu_usage usage;
	vgpu_nsec late;

	policy->pick(state, &pick, t);
	if (pick.vf == VGPU_NO_VF)
		return pick.park_until;
	t = pick.not_before > t ? pick.not_before : t;
	if (policy->run)
		policy->run(state, pick.vf, t);
	late = pick.vf == 3 ? 30 * VGPU_MSEC : 0;
	usage = (struct vgpu_usage){.vf = pick.vf,
				    .donated = pick.flags & VGPU_PICK_DONATED,
				    .start = t,
				    .end = t + pick.slice + late,
				    .granted = pick.slice,
				    .used = pick.slice + late,
				    .overrun = late,
				    .charge = pick.slice + late};
	policy->account(state, &usage);
	return usage.end;
}

/* A VF that is removed in debt, and admitted again, is still in debt. */
TEST(debt_survives_removal, "debt survives removal")
{
	struct vgpu_facts facts = {.max_vfs = 4,
				   .switch_ns = 100 * VGPU_USEC,
				   .switch_high_ns = 100 * VGPU_USEC,
				   .min_slice_ns = 500 * VGPU_USEC,
				   .max_slice_ns = 500 * VGPU_MSEC,
				   .grace_ns = 50 * VGPU_MSEC,
				   .window_ns = VGPU_SEC};
	int64_t params[VGPU_MAX_PARAMS], values[VGPU_MAX_PARAMS], before;
	const char *why;
	vgpu_nsec t;
	unsigned p, i;

	for (p = 0; vgpu_builtin_policies[p]; p++) {
		const struct vgpu_policy_ops *policy = vgpu_builtin_policies[p];
		void *state = calloc(1, policy->memory(4));

		if (!is_proportional(policy)) {
			free(state);
			continue;
		}
		vgpu_param_defaults(policy->params, params);
		vgpu_param_defaults(policy->vf_params, values);
		policy->attach(state, &facts, params);
		for (i = 0; i < 4; i++) {
			CU_ASSERT(policy->admit(state, i, values, VGPU_SEC, &why));
			policy->online(state, i, VGPU_SEC);
			policy->wake(state, i, VGPU_SEC);
		}
		t = VGPU_SEC;
		for (i = 0; i < 1000 && policy->export_lag(state, 3) > -20 * (int64_t)VGPU_MSEC;
		     i++)
			t = late_turn(policy, state, t);
		before = policy->export_lag(state, 3);
		CU_ASSERT(before <= -20 * (int64_t)VGPU_MSEC);
		policy->sleep(state, 3, t);
		policy->offline(state, 3, t);
		policy->remove(state, 3, t);
		CU_ASSERT(policy->admit(state, 3, values, t, &why));
		CU_ASSERT(policy->export_lag(state, 3) < before / 2);
		if (policy->export_lag(state, 3) >= before / 2)
			printf("\n  %s: %lld before, %lld after\n", policy->name, (long long)before,
			       (long long)policy->export_lag(state, 3));
		free(state);
	}
}

/* Changing its weight to and fro brings a VF no more than the weights themselves do. */
TEST(toggling, "toggling weights gains nothing")
{
	static const char *const names[] = {"fair", "qos", "wdrr"};
	int64_t values[VGPU_MAX_PARAMS];
	double due, had[4], last[4], all, weight;
	unsigned p, i, k;

	for (p = 0; p < 3; p++) {
		const struct vgpu_policy_ops *policy = vgpu_builtin_policy(names[p]);

		machine(4, 79, VGPU_NO_VF);
		h.work_from = 100 * VGPU_MSEC;
		vhost_start(&h, policy, NULL, NULL);
		vhost_run(&h, 200 * VGPU_MSEC);
		for (i = 0; i < 4; i++)
			last[i] = (double)vhost_service(&h, i);
		had[0] = last[0];
		for (k = 0, due = 0; k < 3000; k++) {
			weight = k % 2 ? 100 : 900;
			vgpu_param_defaults(policy->vf_params, values);
			vhost_param(policy->vf_params, values, "weight", (int64_t)weight);
			vhost_event(&h, &(struct vgpu_event){.type = VGPU_EV_SET_VF,
							     .vf = 0,
							     .params = values});
			vhost_run(&h, h.now + 7 * VGPU_MSEC);
			/* An event brings the ledgers up to date. */
			vhost_event(&h, &(struct vgpu_event){.type = VGPU_EV_BUSY, .vf = 0});
			for (i = 0, all = 0; i < 4; i++) {
				double now = (double)vhost_service(&h, i);

				all += now - last[i];
				last[i] = now;
			}
			due += all * weight / (weight + 300);
		}
		printf("[%s: %+.2f ms a second] ", names[p], (last[0] - had[0] - due) / 21e6);
		CU_ASSERT((last[0] - had[0] - due) / 21 < 4e6);
		done();
	}
}

/* The rest of a turn that ended early is either served in the same slot or owed, not both: beside a
 * VF that stops early or late, never as predicted, shares are those of the slots. */
TEST(strict_settles_once, "strict: a turn is settled once")
{
	static const int64_t rows[3][VGPU_MAX_PARAMS] = {{6}, {1}, {1}};
	const struct vgpu_policy_ops *strict = vgpu_builtin_policy("strict");
	int64_t params[VGPU_MAX_PARAMS];
	struct vgpu_vf_view v[2];
	unsigned mode, i;

	for (mode = 0; mode < 3; mode++) {
		machine(3, 51, VGPU_NO_VF);
		vgpu_param_defaults(strict->params, params);
		vhost_param(strict->params, params, "idle", mode);
		h.vfs[0].late = (struct vhost_range){1204680, 3767236};
		h.vfs[2].work = VHOST_NEVER;
		h.work_from = 100 * VGPU_MSEC;
		vhost_start(&h, vhost_checked(strict, &h), params, rows);
		vhost_run(&h, 200 * VGPU_SEC);
		for (i = 0; i < 2; i++)
			vgpu_core_vf_view(h.core, i, &v[i]);
		CU_ASSERT(fabs((double)v[0].ledger.charged_ns -
			       6.0 * (double)v[1].ledger.charged_ns) <
			  (double)v[0].bound.max_lag + 6.0 * (double)v[1].bound.max_lag);
		/* Errors do not accumulate: the bounds stay those of single turns. */
		CU_ASSERT(v[0].bound.max_lag < 50 * VGPU_MSEC);
		done();
	}
}

static uint64_t switches_in(vgpu_nsec time)
{
	uint64_t before = h.switches;

	vhost_run(&h, h.now + time);
	return h.switches - before;
}

/* A VF without competitors is not switched with itself. When another wakes, the first soon makes
 * room; what it had before does not count, and the two are equal from then on. */
TEST(alone, "a VF without competitors is not switched with itself")
{
	static const char *const names[] = {"equal", "wdrr", "best-effort", "strict"};
	struct vgpu_core_view view;
	struct vgpu_vf_view v;
	vgpu_nsec had[2];
	unsigned p, i;

	for (p = 0; p < 4; p++) {
		bool held = p == 3; /* only its own slots follow one another */

		machine(held ? 1 : 2, 52, VGPU_NO_VF);
		if (!held) {
			h.vfs[1].work = VHOST_BURSTS;
			h.vfs[1].burst = (struct vhost_range){2 * VGPU_SEC, 2 * VGPU_SEC};
			h.vfs[1].think = (struct vhost_range){9 * VGPU_SEC, 9 * VGPU_SEC};
		}
		vhost_start(&h, vhost_checked(vgpu_builtin_policy(names[p]), &h), NULL, NULL);
		vhost_run(&h, 5 * VGPU_SEC);
		/* `best-effort` visits the other one each eighth round. */
		CU_ASSERT(switches_in(3 * VGPU_SEC) <= (p == 2 ? 2 * 3000 / 42 + 2 : 8));
		if (!held) {
			/* Until the other one wakes; it has 2 s of work then. */
			do {
				vhost_run(&h, h.now + VGPU_MSEC);
				vgpu_core_vf_view(h.core, 1, &v);
			} while (!v.has_work && h.violations == 0);
			for (i = 0; i < 2; i++)
				had[i] = vhost_service(&h, i);
			vhost_run(&h, h.now + VGPU_SEC);
			for (i = 0; i < 2; i++)
				had[i] = vhost_service(&h, i) - had[i];
			CU_ASSERT(fabs((double)had[0] - (double)had[1]) < 20e6);
			vgpu_core_vf_view(h.core, 1, &v);
			CU_ASSERT(v.ledger.wait_max_ns < 8 * VGPU_MSEC);
		}
		vgpu_core_view(h.core, &view);
		CU_ASSERT_EQUAL(view.engine.evictions, 0);
		done();
	}
}

/* However often the policy changes, not always the same VFs run first. */
TEST(changes_favour_nobody, "changes of policy favour no VF")
{
	static const char *const names[] = {"equal", "wdrr", "strict", "best-effort"};
	unsigned mix, k, i;
	double share, off;

	for (mix = 0; mix < 5; mix++) { /* each with itself, and three in turn */
		off = mix < 4 ? 0.01 : 0.1;
		machine(12, 53, VGPU_NO_VF);
		h.work_from = 100 * VGPU_MSEC; /* all are up by then */
		vhost_start(&h, vgpu_builtin_policy(names[mix % 4]), NULL, NULL);
		vhost_run(&h, VGPU_SEC);
		for (k = 0; k < 1500; k++) {
			vhost_change_policy(&h, vgpu_builtin_policy(names[mix < 4 ? mix : k % 3]),
					    NULL, NULL);
			vhost_run(&h, h.now + 10 * VGPU_MSEC);
		}
		for (i = 0; i < 12; i++) {
			share = share_of(i) * 12;
			if (fabs(share - 1) > off)
				printf("\n  mix %u: VF %u has %.3f of its share\n", mix, i, share);
			CU_ASSERT(fabs(share - 1) <= off);
		}
		done();
	}
}

/* Parameters that change in step with the round, so that they would cut the second VF's turn each
 * time, and the first one's never. */
TEST(changes_in_step, "changes in step with the round favour no VF")
{
	static const char *const names[] = {"equal", "strict", "wdrr", "fair"};
	static const char *const lengths[] = {"slice_us", "slice_us", "quantum_us", "slice_us"};
	int64_t params[VGPU_MAX_PARAMS];
	struct vgpu_vf_view v;
	unsigned p, k;

	for (p = 0; p < 4; p++) {
		const struct vgpu_policy_ops *policy = vgpu_builtin_policy(names[p]);

		machine(2, 54, VGPU_NO_VF);
		vgpu_param_defaults(policy->params, params);
		vhost_param(policy->params, params, lengths[p], 7000);
		vhost_start(&h, policy, params, NULL);
		vhost_run(&h, VGPU_SEC);
		for (k = 0; k < 2000; k++) {
			vhost_event(&h, &(struct vgpu_event){.type = VGPU_EV_SET_POLICY,
							     .params = params});
			vhost_run(&h, h.now + 10 * VGPU_MSEC);
			vgpu_core_vf_view(h.core, k % 2, &v);
			CU_ASSERT(v.lag_ns < 4 * (int64_t)VGPU_MSEC); /* half a turn */
		}
		printf("[%s: %.4f] ", names[p], share_of(0));
		CU_ASSERT(fabs(share_of(0) - 0.5) < 0.01);
		done();
	}
}

/* A turn that has begun is had as it was when its round began, and so are the shares. */
TEST(slots_of_a_round, "strict: slots of a round")
{
	static const int64_t rows[2][VGPU_MAX_PARAMS] = {{4}, {1}};
	struct vgpu_event event = {.type = VGPU_EV_SET_VF, .vf = 0, .params = rows[1]};
	vgpu_nsec began, had;

	machine(2, 56, VGPU_NO_VF);
	vhost_start(&h, vgpu_builtin_policy("strict"), NULL, rows);
	vhost_run(&h, VGPU_SEC);
	while (h.running != 0)
		vhost_run(&h, h.now + 100 * VGPU_USEC);
	began = h.vfs[0].last_start;
	had = vhost_service(&h, 0);
	vhost_event(&h, &event);
	CU_ASSERT_DOUBLE_EQUAL(promised(0), 0.8, 0.001);
	while (h.running != 1)
		vhost_run(&h, h.now + 100 * VGPU_USEC);
	CU_ASSERT(h.now - began > 8 * VGPU_MSEC);
	CU_ASSERT(vhost_service(&h, 0) - had > 7 * VGPU_MSEC);
	while (h.running != 0)
		vhost_run(&h, h.now + 100 * VGPU_USEC);
	CU_ASSERT_DOUBLE_EQUAL(promised(0), 0.5, 0.001);
	done();
}

/* The same with changes of policy: they wait for the end of a turn, and who is next in the old
 * round begins the new one. */
TEST(policies_in_step, "changes of policy in step with the round favour no VF")
{
	static const char *const names[] = {"equal", "strict", "wdrr", "fair"};
	static const char *const lengths[] = {"slice_us", "slice_us", "quantum_us", "slice_us"};
	int64_t params[VGPU_MAX_PARAMS];
	unsigned p, k, ms;
	double worst;

	for (p = 0; p < 4; p++) {
		const struct vgpu_policy_ops *policy = vgpu_builtin_policy(names[p]);

		for (ms = 20, worst = 0; ms <= 100; ms += 4) {
			machine(2, 57, VGPU_NO_VF);
			vgpu_param_defaults(policy->params, params);
			vhost_param(policy->params, params, lengths[p], 15000);
			vhost_start(&h, policy, params, NULL);
			vhost_run(&h, VGPU_SEC);
			for (k = 0; k < 200; k++) {
				vhost_change_policy(&h, policy, params, NULL);
				vhost_run(&h, h.now + ms * VGPU_MSEC);
			}
			worst = fmax(worst, fabs(share_of(0) - 0.5));
			done();
		}
		printf("[%s: %.4f] ", names[p], worst);
		CU_ASSERT(worst < 0.004);
	}
}

/* A policy that replaces itself knows what each VF is owed by its place in the round, so that no
 * turn is longer or shorter for it. */
TEST(replaces_itself, "a policy that replaces itself changes no turn")
{
	static const char *const names[] = {"equal", "strict"};
	static struct vhost_dispatch log[4000];
	vgpu_nsec length;
	unsigned p, k;
	size_t i;

	for (p = 0; p < 2; p++) {
		const struct vgpu_policy_ops *policy = vgpu_builtin_policy(names[p]);

		machine(3, 58, VGPU_NO_VF);
		h.log = log;
		h.log_max = 4000;
		vhost_start(&h, policy, NULL, NULL);
		vhost_run(&h, VGPU_SEC);
		for (k = 0; k < 100; k++) {
			vhost_change_policy(&h, policy, NULL, NULL);
			vhost_run(&h, h.now + 17 * VGPU_MSEC);
		}
		for (i = 1; i + 1 < h.log_n; i++) {
			length = h.log[i].end - h.log[i].start;
			if (length < 2 * VGPU_MSEC - VGPU_USEC ||
			    length > 2 * VGPU_MSEC + VGPU_USEC)
				break;
		}
		CU_ASSERT_EQUAL(i + 1, h.log_n);
		CU_ASSERT(h.log_n > 900 && h.log_n < h.log_max);
		done();
	}
}

/* Whoever runs, the turns that follow are to be longer after VF 0's and shorter after VF 1's. */
TEST(changes_between_turns, "changes between turns favour no VF")
{
	static const char *const names[] = {"equal", "strict"};
	int64_t params[VGPU_MAX_PARAMS];
	unsigned p;

	for (p = 0; p < 2; p++) {
		const struct vgpu_policy_ops *policy = vgpu_builtin_policy(names[p]);
		uint32_t last = VGPU_NO_VF;

		machine(2, 55, VGPU_NO_VF);
		vgpu_param_defaults(policy->params, params);
		vhost_start(&h, policy, params, NULL);
		while (h.now < 10 * VGPU_SEC) {
			vhost_run(&h, h.now + VGPU_MSEC);
			if (h.running == VGPU_NO_VF || h.running == last)
				continue;
			last = h.running;
			vhost_param(policy->params, params, "slice_us", last ? 3000 : 12000);
			vhost_event(&h, &(struct vgpu_event){.type = VGPU_EV_SET_POLICY,
							     .params = params});
		}
		printf("[%s: %.4f] ", names[p], share_of(0));
		CU_ASSERT(fabs(share_of(0) - 0.5) < 0.01);
		done();
	}
}

/* With timers that fire late, shares and waits are kept, also for VFs that sleep and wake. */
TEST(late_timers, "late timers")
{
	static const char *const names[] = {"strict", "equal", "wdrr"};
	struct vgpu_vf_view v;
	unsigned p, seed, i;
	double ratio, worst;

	for (p = 0; p < 3; p++) {
		for (worst = 0, seed = 1; seed <= 12; seed++) {
			machine(2 + seed % 6, seed, VGPU_NO_VF);
			h.timer_late =
				(struct vhost_range){0, seed % 3 ? 2 * VGPU_MSEC : 40 * VGPU_MSEC};
			h.unchecked = true; /* deadlines may pass */
			for (i = 1; i < h.n_vfs; i += 2) {
				h.vfs[i].work = VHOST_BURSTS;
				h.vfs[i].burst = (struct vhost_range){100000, 5 * VGPU_MSEC};
				h.vfs[i].think = (struct vhost_range){0, 30 * VGPU_MSEC};
			}
			h.work_from = 100 * VGPU_MSEC;
			vhost_start(&h, vhost_checked(vgpu_builtin_policy(names[p]), &h), NULL,
				    NULL);
			vhost_run(&h, 20 * VGPU_SEC);
			for (i = 0; i < h.n_vfs; i++) {
				vgpu_core_vf_view(h.core, i, &v);
				ratio = (double)v.ledger.wait_max_ns / (double)v.bound.max_wait;
				worst = fmax(worst, ratio);
				CU_ASSERT(v.ledger.dispatches > 10);
			}
			if (h.n_vfs > 2) { /* VFs 0 and 2 always have work */
				double apart = fabs((double)vhost_service(&h, 0) -
						    (double)vhost_service(&h, 2));

				vgpu_core_vf_view(h.core, 0, &v);
				CU_ASSERT(apart < 2 * (double)v.bound.max_lag);
			}
			CU_ASSERT_EQUAL(h.violations, 0);
			vhost_finish(&h);
		}
		printf("[%s: wait/bound %.3f] ", names[p], worst);
		CU_ASSERT(worst <= 1.0);
	}
}

/* A machine whose switches always take their longest, and VFs that stop up to 0.2 ms late. */
static void steady_machine(uint32_t n, uint64_t seed, int64_t (*rows)[VGPU_MAX_PARAMS])
{
	const struct vgpu_policy_ops *policy = vgpu_builtin_policy("deadline");
	uint32_t i;

	vhost_init(&h, n, seed);
	h.config.switch_nominal = 300 * VGPU_USEC;
	h.load = (struct vhost_range){150000, 150000};
	h.work_from = 100 * VGPU_MSEC;
	for (i = 0; i < n; i++) {
		h.vfs[i].late = (struct vhost_range){0, 200000};
		h.vfs[i].save = (struct vhost_range){150000, 150000};
		vgpu_param_defaults(policy->vf_params, rows[i]);
	}
}

static void give(int64_t *row, int64_t budget_us, int64_t period_us)
{
	const struct vgpu_policy_ops *policy = vgpu_builtin_policy("deadline");

	vhost_param(policy->vf_params, row, "budget_us", budget_us);
	vhost_param(policy->vf_params, row, "period_us", period_us);
}

/* Jobs of a budget less the time that stopping takes, one in a period, beside a VF that wakes all
 * the time, one that always has work, and the background: each job is in time, and a VF gets k
 * budgets in k periods. */
TEST(budgets_are_kept, "deadline: budgets are kept")
{
	static struct vhost_item items[400];
	int64_t rows[4][VGPU_MAX_PARAMS];
	struct vgpu_vf_view v;
	uint32_t i;

	steady_machine(4, 91, rows);
	give(rows[0], 2400, 16000);
	give(rows[1], 7000, 33000);
	give(rows[2], 5000, 50000);
	for (i = 0; i < 400; i++)
		items[i] = (struct vhost_item){.t = 107 * VGPU_MSEC + i * 16 * VGPU_MSEC,
					       .kind = VHOST_WORK,
					       .value = 2100 * VGPU_USEC};
	h.vfs[0].work = VHOST_SCRIPT;
	h.vfs[0].items = items;
	h.vfs[0].n_items = 400;
	vhost_keep_latencies(&h, 0, 400);
	h.vfs[2].work = VHOST_BURSTS;
	h.vfs[2].burst = h.vfs[2].think = (struct vhost_range){1000, 2 * VGPU_MSEC};
	vhost_start(&h, vhost_checked(vgpu_builtin_policy("deadline"), &h), NULL, rows);
	for (i = 1; i <= 150; i++) {
		vhost_run(&h, 100 * VGPU_MSEC + i * 33 * VGPU_MSEC);
		CU_ASSERT(vhost_service(&h, 1) + 32 * VGPU_USEC >= i * 7 * VGPU_MSEC);
	}
	vhost_run(&h, 7 * VGPU_SEC);
	CU_ASSERT_EQUAL(h.vfs[0].n_latencies, 400);
	for (i = 0; i < h.vfs[0].n_latencies; i++)
		CU_ASSERT(h.vfs[0].latencies[i] <= 16 * VGPU_MSEC);
	vgpu_core_vf_view(h.core, 0, &v);
	CU_ASSERT(v.bound.budget >= 2100 * VGPU_USEC);
	CU_ASSERT(v.ledger.wait_max_ns <= v.bound.max_wait);
	CU_ASSERT(vhost_service(&h, 3) > VGPU_SEC);
	done();
}

/* A lone VF in the background is not switched with itself. */
TEST(lone_goes_on, "deadline: a lone VF goes on")
{
	int64_t rows[2][VGPU_MAX_PARAMS];

	steady_machine(2, 92, rows);
	h.vfs[1].work = VHOST_NEVER;
	vhost_start(&h, vhost_checked(vgpu_builtin_policy("deadline"), &h), NULL, rows);
	vhost_run(&h, 10100 * VGPU_MSEC);
	CU_ASSERT(vhost_service(&h, 0) > 9990 * VGPU_MSEC);
	done();
}

/* Toggling between two budgets every few ms brings no more than the larger of them. */
TEST(toggling_budgets, "deadline: toggling budgets gains nothing")
{
	int64_t rows[3][VGPU_MAX_PARAMS];
	struct vgpu_event event = {.type = VGPU_EV_SET_VF, .vf = 0, .params = rows[0]};
	uint32_t k;

	steady_machine(3, 93, rows);
	give(rows[0], 50000, 200000);
	give(rows[1], 2000, 33000);
	vhost_start(&h, vhost_checked(vgpu_builtin_policy("deadline"), &h), NULL, rows);
	vhost_run(&h, 100 * VGPU_MSEC);
	for (k = 0; k < 1000; k++) {
		if (k % 2)
			give(rows[0], 50000, 200000);
		else
			give(rows[0], 2000, 8000);
		CU_ASSERT_EQUAL(vhost_event(&h, &event), 0);
		vhost_run(&h, h.now + 7 * VGPU_MSEC);
	}
	CU_ASSERT(vhost_service(&h, 0) < 7 * VGPU_SEC / 4 + 51 * VGPU_MSEC);
	CU_ASSERT(vhost_service(&h, 0) > 7 * VGPU_SEC / 8);
	done();
}

SUITE_MAIN("promises of the policies")
