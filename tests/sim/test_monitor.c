/* SPDX-License-Identifier: MIT */
/* Tests the monitor: a policy that keeps its promises passes, and the judge of each promise finds
 * each way of breaking it, even once. */
#include <math.h>
#include <string.h>

#include "builtin.h"
#include "entitled.h"
#include "fluid.h"
#include "monitor.h"
#include "peer.h"
#include "suite.h"

#define N 3u
#define TURN (2 * VGPU_MSEC)

/* A policy of 2 ms turns for VFs with work, and its faults. */
static struct {
	bool awake[N];
	uint32_t last;
	/* Faults: */
	uint32_t skipped; /* this VF gets nothing in [from, to) */
	vgpu_nsec from, to;
	uint32_t favoured; /* this VF's turns are longer by EXTRA */
	vgpu_nsec extra;
	uint32_t repeated; /* this VF gets REPEATS turns in a row, once, after FROM */
	uint32_t repeats;
	bool restless; /* a change of policy begins with VF 0 */
	struct vgpu_bound bounds[N];
} turns;

static size_t turns_memory(uint32_t)
{
	return 8;
}

static void turns_attach(void *, const struct vgpu_facts *, const int64_t *)
{
	if (turns.restless) {
		turns.last = N - 1;
		memset(turns.awake, 0, sizeof(turns.awake));
	}
}

static void turns_set_params(void *, const int64_t *, vgpu_nsec)
{
}

static bool turns_admit(void *, uint32_t vf, const int64_t *, vgpu_nsec, const char **)
{
	return vf < N;
}

static void turns_nothing(void *, uint32_t, vgpu_nsec)
{
}

static bool turns_wake(void *, uint32_t vf, vgpu_nsec)
{
	turns.awake[vf] = true;
	return false;
}

static void turns_sleep(void *, uint32_t vf, vgpu_nsec)
{
	turns.awake[vf] = false;
}

static bool may_run(uint32_t vf, vgpu_nsec now)
{
	return turns.awake[vf] && !(vf == turns.skipped && now >= turns.from && now < turns.to);
}

static void turns_pick(void *, struct vgpu_pick *out, vgpu_nsec now)
{
	uint32_t k, vf;

	if (turns.repeats && now >= turns.from && turns.awake[turns.repeated]) {
		turns.repeats--;
		out->vf = turns.repeated;
		out->slice = TURN;
		return;
	}
	for (k = 1; k <= N; k++) {
		vf = (turns.last + k) % N;
		if (!may_run(vf, now))
			continue;
		turns.last = vf;
		out->vf = vf;
		out->slice = TURN + (vf == turns.favoured ? turns.extra : 0);
		return;
	}
	out->park_until = now + VGPU_MSEC;
}

static void turns_account(void *, const struct vgpu_usage *)
{
}

static int64_t turns_export(void *, uint32_t)
{
	return 0;
}

static void turns_import(void *, uint32_t, int64_t)
{
}

static void turns_share(void *, uint32_t, uint64_t *numerator, uint64_t *denominator)
{
	*numerator = 1;
	*denominator = N;
}

static void turns_bound(void *, uint32_t vf, struct vgpu_bound *out)
{
	*out = turns.bounds[vf];
}

static const struct vgpu_param none[] = {{.name = NULL}};

static const struct vgpu_policy_ops turns_policy = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "turns",
	.promises = VGPU_PROMISE_PROPORTIONAL | VGPU_PROMISE_NO_STARVATION,
	.params = none,
	.vf_params = none,
	.memory = turns_memory,
	.attach = turns_attach,
	.set_params = turns_set_params,
	.admit = turns_admit,
	.set_vf = turns_admit,
	.remove = turns_nothing,
	.online = turns_nothing,
	.offline = turns_nothing,
	.wake = turns_wake,
	.sleep = turns_sleep,
	.pick = turns_pick,
	.account = turns_account,
	.export_lag = turns_export,
	.import_lag = turns_import,
	.share = turns_share,
	.bound = turns_bound,
};

/* Loosens all promises but the tested one. */
static void promise_little(vgpu_nsec max_lag, vgpu_nsec max_wait)
{
	uint32_t i;

	for (i = 0; i < N; i++) {
		turns.bounds[i].max_lag = max_lag;
		turns.bounds[i].max_wait = max_wait;
	}
}

/* Two VFs that always work, and one with jobs of 1 ms, 10 to 20 ms apart. */
static void set_up(struct vhost *h)
{
	uint32_t i;

	memset(&turns, 0, sizeof(turns));
	turns.skipped = turns.favoured = turns.repeated = VGPU_NO_VF;
	turns.last = N - 1;
	for (i = 0; i < N; i++)
		turns.bounds[i] =
			(struct vgpu_bound){.max_lag = 2 * VGPU_MSEC, .max_wait = 4 * VGPU_MSEC};
	vhost_init(h, N, 5);
	h->quiet = true;
	h->work_from = 100 * VGPU_MSEC;
	h->vfs[2].work = VHOST_BURSTS;
	h->vfs[2].burst = (struct vhost_range){VGPU_MSEC - 1, VGPU_MSEC - 1};
	h->vfs[2].think = (struct vhost_range){10 * VGPU_MSEC, 20 * VGPU_MSEC};
}

/* Runs until UNTIL; changes to the same policy every 10 ms if turns.restless is set. */
static void run(struct vhost *h, const struct vgpu_policy_ops *policy, vgpu_nsec until,
		struct monitor_result *result)
{
	vgpu_nsec t;

	vhost_start(h, policy, NULL, NULL);
	h->monitor = monitor_new(h, MONITOR_ALL);
	for (t = 10 * VGPU_MSEC; t < until; t += 10 * VGPU_MSEC) {
		vhost_run(h, t);
		if (turns.restless && t > VGPU_SEC && h->violations == 0)
			vhost_change_policy(h, policy, NULL, NULL);
	}
	monitor_finish(h->monitor, result);
	if (h->violations)
		printf("[%s] ", h->violation);
	monitor_free(h->monitor);
}

static void finish(struct vhost *h)
{
	vhost_finish(h);
}

/* Checks that the violation is of this kind, and came soon after SINCE. */
static void found(const struct vhost *h, const char *kind, vgpu_nsec since, vgpu_nsec within)
{
	CU_ASSERT(h->violations > 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(h->violation, kind));
	CU_ASSERT(h->now >= since && h->now <= since + within);
}

TEST(a_good_policy, "a good policy passes")
{
	struct monitor_result r;
	struct vhost h;

	set_up(&h);
	turns.bounds[1].budget = VGPU_MSEC;
	turns.bounds[1].period = 8 * VGPU_MSEC;
	run(&h, &turns_policy, 20 * VGPU_SEC, &r);
	CU_ASSERT_EQUAL(h.violations, 0);
	/* The bounds are tight: if no VF had been judged, the ratios would be small. */
	CU_ASSERT(r.lag > 0.3 && r.lag <= 1);
	CU_ASSERT(r.wait > 0.7 && r.wait <= 1);
	CU_ASSERT(r.deadlines > 2000);
	CU_ASSERT_EQUAL(r.missed, 0);
	finish(&h);
}

/* The same, with a budget for the VF that has jobs. */
TEST(a_good_policy_in_jobs, "a good policy passes, with jobs")
{
	struct monitor_result r;
	struct vhost h;

	set_up(&h);
	turns.bounds[2].budget = VGPU_MSEC;
	turns.bounds[2].period = 8 * VGPU_MSEC;
	run(&h, &turns_policy, 20 * VGPU_SEC, &r);
	CU_ASSERT_EQUAL(h.violations, 0);
	CU_ASSERT(r.pairs > 0.3 && r.pairs <= r.lag);
	CU_ASSERT(r.deadlines > 900);
	CU_ASSERT_EQUAL(r.missed, 0);
	finish(&h);
}

TEST(a_waker_starves_once, "a waker starves once")
{
	struct monitor_result r;
	struct vhost h;

	set_up(&h);
	turns.skipped = 2;
	turns.from = 5 * VGPU_SEC;
	turns.to = turns.from + 30 * VGPU_MSEC;
	run(&h, &turns_policy, 10 * VGPU_SEC, &r);
	found(&h, "waited for", turns.from, 60 * VGPU_MSEC);
	finish(&h);
}

/* The VF never runs again, so its wait has no end. */
TEST(a_waker_starves_for_good, "a waker starves for good")
{
	struct monitor_result r;
	struct vhost h;

	set_up(&h);
	turns.skipped = 2;
	turns.from = 5 * VGPU_SEC;
	turns.to = VGPU_NEVER;
	run(&h, &turns_policy, 10 * VGPU_SEC, &r);
	found(&h, "VF 2 waited for", turns.from, 5 * VGPU_SEC);
	finish(&h);
}

/* A VF gets a hundredth of its share too much, in turns that are 20 us longer. */
TEST(shares_drift, "shares drift by a hundredth")
{
	struct monitor_result r;
	struct vhost h;

	set_up(&h);
	promise_little(2 * VGPU_MSEC, VGPU_SEC);
	turns.favoured = 0;
	turns.extra = TURN / 100;
	run(&h, &turns_policy, 10 * VGPU_SEC, &r);
	found(&h, "VF 0: ", 0, 3 * VGPU_SEC);
	CU_ASSERT_PTR_NOT_NULL(strstr(h.violation, "ahead of an ideal fluid server"));
	finish(&h);
}

/* The same among VFs that sleep and wake, where no pair can be compared. */
TEST(shares_of_wakers_drift, "shares of wakers drift")
{
	struct monitor_result r;
	struct vhost h;
	uint32_t i;

	set_up(&h);
	for (i = 0; i < N; i++) {
		h.vfs[i].work = VHOST_BURSTS;
		h.vfs[i].burst = (struct vhost_range){500 * VGPU_MSEC, 900 * VGPU_MSEC};
		h.vfs[i].think = (struct vhost_range){VGPU_USEC, VGPU_MSEC};
	}
	promise_little(2 * VGPU_MSEC, VGPU_SEC);
	turns.favoured = 0;
	turns.extra = TURN / 10;
	run(&h, &turns_policy, 20 * VGPU_SEC, &r);
	found(&h, "ideal fluid server", 0, 20 * VGPU_SEC);
	finish(&h);
}

TEST(a_limit_is_exceeded_once, "a limit is exceeded once")
{
	struct monitor_result r;
	struct vhost h;

	set_up(&h);
	turns.bounds[1].limit_ppm = 500000;
	turns.bounds[1].burst = TURN;
	run(&h, &turns_policy, 10 * VGPU_SEC, &r);
	CU_ASSERT_EQUAL(h.violations, 0);
	CU_ASSERT(r.limit > 0.4 && r.limit <= 1);
	finish(&h);

	set_up(&h);
	turns.bounds[1].limit_ppm = 500000;
	turns.bounds[1].burst = TURN;
	promise_little(VGPU_SEC, VGPU_SEC);
	turns.repeated = 1;
	turns.repeats = 3;
	turns.from = 5 * VGPU_SEC;
	run(&h, &turns_policy, 10 * VGPU_SEC, &r);
	found(&h, "VF 1: ", turns.from, 20 * VGPU_MSEC);
	CU_ASSERT_PTR_NOT_NULL(strstr(h.violation, "beyond its limit"));
	finish(&h);
}

static void budget_is_missed_once(uint32_t vf, bool always)
{
	struct monitor_result r;
	struct vhost h;

	set_up(&h);
	turns.bounds[vf].budget = VGPU_MSEC;
	turns.bounds[vf].period = 8 * VGPU_MSEC;
	promise_little(VGPU_SEC, VGPU_SEC);
	turns.skipped = vf;
	/* A VF that always works gets more than its budgets, and would make up for it later. */
	turns.from = always ? h.work_from : 5 * VGPU_SEC;
	turns.to = turns.from + 40 * VGPU_MSEC;
	run(&h, &turns_policy, 10 * VGPU_SEC, &r);
	printf("[%u missed, by up to %.3f ms] ", (unsigned)r.missed, (double)r.worst_miss / 1e6);
	CU_ASSERT_EQUAL(h.violations, 0);
	CU_ASSERT(r.missed >= 1 && r.missed <= 8);
	CU_ASSERT(r.worst_miss > 5 * VGPU_MSEC && r.worst_miss < 80 * VGPU_MSEC);
	CU_ASSERT(r.deadlines > (always ? 1000u : 400u));
	finish(&h);
}

TEST(budgets_are_missed_once, "budgets are missed once")
{
	budget_is_missed_once(1, true);
	budget_is_missed_once(2, false);
}

/* The policy promises that no VF starves, without a number. */
TEST(no_wait_is_stated, "no wait is stated")
{
	struct monitor_result r;
	struct vhost h;

	set_up(&h);
	turns.bounds[2].max_wait = VGPU_NEVER;
	run(&h, &turns_policy, VGPU_SEC, &r);
	found(&h, "states no wait", 0, VGPU_SEC);
	finish(&h);
}

/* Each change is followed by the turns of VF 0 and VF 1; VF 2 is never reached. */
TEST(changes_starve, "changes starve")
{
	struct monitor_result r;
	struct vhost h;

	set_up(&h);
	turns.restless = true;
	turns.favoured = 0;
	turns.extra = 8 * VGPU_MSEC;
	promise_little(20 * VGPU_MSEC, 20 * VGPU_MSEC);
	run(&h, &turns_policy, 5 * VGPU_SEC, &r);
	CU_ASSERT(h.violations > 0);
	CU_ASSERT(h.now < 2 * VGPU_SEC);
	finish(&h);
}

static void lottery_bound(void *, uint32_t, struct vgpu_bound *out)
{
	*out = (struct vgpu_bound){.max_lag = 30 * VGPU_MSEC, .max_wait = VGPU_NEVER};
}

/* A lottery is fair only in the mean. */
TEST(a_lottery_is_no_bound, "a lottery under a bound")
{
	struct vgpu_policy_ops lottery = *peer_or_policy("lottery");
	struct monitor_result r;
	struct vhost h;

	lottery.promises |= VGPU_PROMISE_PROPORTIONAL;
	lottery.promises &= ~(uint64_t)VGPU_PROMISE_NO_STARVATION;
	lottery.bound = lottery_bound;
	set_up(&h);
	run(&h, &lottery, 60 * VGPU_SEC, &r);
	CU_ASSERT(h.violations > 0);
	CU_ASSERT(strstr(h.violation, "fluid") || strstr(h.violation, "apart"));
	finish(&h);
}

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

/* Shares computed by hand. */
TEST(the_fluid, "the fluid, by hand")
{
	struct fluid_vf f[3] = {
		{.in = true, .endless = true, .weight = 1},
		{.in = true, .known = 6, .weight = 3},
		{.in = false, .endless = true, .weight = 100},
	};

	CU_ASSERT(near(fluid_serve(f, 3, 4), 0));
	CU_ASSERT(near(f[0].had, 1) && near(f[1].had, 3) && near(f[2].had, 0));
	/* The second needs 3 more of the 6 that would be its part of 8: 5 are left. */
	CU_ASSERT(near(fluid_serve(f, 3, 8), 0));
	CU_ASSERT(near(f[0].had, 6) && near(f[1].had, 6));
	/* Its work was only 4: 2 go to the other. */
	fluid_truncate(f, 3, 1, 4);
	CU_ASSERT(near(f[0].had, 8) && near(f[1].had, 4));
	/* It was really served 5, and leaves: the others settle the difference. */
	fluid_leave(f, 3, 1, 5);
	CU_ASSERT(near(f[0].had, 7) && !f[1].in);
	/* No VF has work left. */
	f[0].endless = false;
	f[0].known = 10;
	CU_ASSERT(near(fluid_serve(f, 3, 5), 2));
	CU_ASSERT(near(f[0].had, 10));
}

/* Writes to PARTS what an ideal server of half the speed gives three VFs of weights 1, 1, 2 in 6 s:
 * two that always work, and THIRD. */
static void ideal(const struct scenario_vf *third, double parts[3])
{
	const double weights[] = {0.25, 0.25, 0.5};
	struct scenario s;
	uint32_t i;

	scenario_init(&s, 3);
	s.work_from = 100 * VGPU_MSEC;
	s.until = s.work_from + 6 * VGPU_SEC;
	s.vfs[0].work = s.vfs[1].work = VHOST_ALWAYS;
	s.vfs[2] = *third;
	CU_ASSERT_FATAL(entitled(&s, weights, 0.5, parts));
	for (i = 0; i < 3; i++)
		parts[i] /= 3e9;
	CU_ASSERT(fabs(parts[0] + parts[1] + parts[2] - 1) < 1e-6);
	scenario_free(&s);
}

#define EACH(ms)                                                                                   \
	{                                                                                          \
		(ms) * VGPU_MSEC, (ms)*VGPU_MSEC                                                   \
	}

/* Whoever pauses, pauses when the ideal server has done its work. */
TEST(the_ideal, "what an ideal server gives to VFs that pause")
{
	static const struct {
		struct scenario_vf vf;
		double part;
	} cases[] = {
		{{.work = VHOST_ALWAYS}, 0.5},
		{{.work = VHOST_NEVER}, 0},
		/* A job of 5 ms takes 20 ms beside the others, of each 50. */
		{{.work = VHOST_BURSTS, .burst = EACH(5), .think = EACH(30)}, 0.2},
		/* 16 ms of each 25. */
		{{.work = VHOST_PERIODIC, .burst = EACH(4), .period = EACH(25)}, 0.32},
		/* 60 ms, so that each second tick comes while there is work. */
		{{.work = VHOST_PERIODIC, .burst = EACH(15), .period = EACH(40)}, 0.375},
	};
	double parts[3];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ideal(&cases[i].vf, parts);
		CU_ASSERT(fabs(parts[2] - cases[i].part) < 0.005);
		CU_ASSERT(fabs(parts[1] - (1 - cases[i].part) / 2) < 0.005);
	}
}

SUITE_MAIN("monitor")
