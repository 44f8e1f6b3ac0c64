/* SPDX-License-Identifier: MIT */
/*
 * What policies state is as tight as docs/policies.md says: bound() is compared with the formulas
 * there, which are written down here once more, in floating point. A policy that stated more than
 * it needs would blind the checker, for every run keeps a bound that is large enough.
 *
 * All VFs have work. Before the first turn nothing is owed; the first turn ends late by a known
 * time, and then everything is compared again.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "suite.h"
#include "vhost.h"

#define MOST 6u
#define MS 1e6

/* Shares are weights or slots. A budget of 0: none; a limit of 0: none. */
struct vf {
	int64_t share, budget_us, period_us, limit_ppm;
};

struct set {
	const char *policy;
	int64_t slice_us;
	double w_ms, late_ms; /* the world switch; how late the first turn ends */
	struct vf vfs[MOST];  /* a share of 0 ends the set */
	int64_t donates;
};

/* What is known of a VF, in ms: how late it has stopped; what it owes; its share and its turn. */
struct known {
	double late, debt, share, turn, budget, period;
};

static const double least = 0.5; /* the shortest slice, ms */
static struct known vfs[MOST];
static uint32_t n;
static double w, slice, shares, late; /* late: of all VFs */
static double favour;		      /* how far a VF that keeps time may be ahead */

static double most(double a, double b)
{
	return a > b ? a : b;
}

/* Sum and maximum over all VFs but one. */
struct over {
	double sum, most;
};

static struct over others(uint32_t v, double (*of)(const struct known *, const struct known *))
{
	struct over o = {0};
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (i == v)
			continue;
		o.sum += of(&vfs[i], &vfs[v]);
		o.most = most(o.most, of(&vfs[i], &vfs[v]));
	}
	return o;
}

/* The part of what VF I may be ahead that the ideal server may have given V. */
static double part(const struct known *i, const struct known *v)
{
	return most(v->share / (v->share + i->share), 0.5);
}

static double eevdf_ahead(const struct known *i, const struct known *)
{
	return slice + 2 * least + i->late + favour;
}

static double eevdf_behind(const struct known *i, const struct known *v)
{
	return eevdf_ahead(i, v) * part(i, v);
}

static double eevdf_lag(uint32_t v)
{
	return eevdf_ahead(&vfs[v], NULL) + slice + least + others(v, eevdf_behind).sum +
	       others(v, eevdf_ahead).most / 2;
}

static void fair(uint32_t v, double *lag, double *wait)
{
	struct over ahead = others(v, eevdf_ahead);
	double request = slice + least, own = vfs[v].share, owed, s;

	owed = vfs[v].debt * (1 - own / shares); /* the rest was its own share */
	s = (owed * shares + request * (shares - own)) / own + ahead.sum +
	    most(ahead.most, eevdf_ahead(&vfs[v], NULL));
	*lag = eevdf_lag(v);
	*wait = s + (floor(s / least) + n + 1) * w;
}

static double lumps(const struct known *i, const struct known *)
{
	return i->budget > 0 ? 2 * i->budget + late : 0;
}

static double lightness(const struct known *i, const struct known *)
{
	return 1 / i->share;
}

static void qos(uint32_t v, double *lag, double *wait)
{
	double lightest = 1 / others(v, lightness).most, own = vfs[v].share;

	*lag = eevdf_lag(v) + late + own / (own + lightest) * others(v, lumps).sum;
	*wait = INFINITY;
}

static void prio(uint32_t v, double *lag, double *wait)
{
	struct over turns = others(v, eevdf_ahead);

	*lag = INFINITY;
	*wait = 500 + turns.sum + turns.most + 2 * w * n + w;
}

/* Rounds: how far a VF may be off, and how long its turn may take. SPARE: what it may have kept. */
static double spare;

static double reach(const struct known *i, const struct known *)
{
	return i->turn + i->late + spare;
}

static double reach_part(const struct known *i, const struct known *v)
{
	return reach(i, v) * part(i, v);
}

static bool donates;

static double takes(const struct known *i, const struct known *)
{
	return i->turn + spare + (i->late < i->turn ? i->late : i->turn) + 2 * w +
	       (donates ? late : i->late);
}

static double rounds_lag(uint32_t v)
{
	return 2 * reach(&vfs[v], NULL) + others(v, reach_part).sum + others(v, reach).most / 2;
}

static void wdrr(uint32_t v, double *lag, double *wait)
{
	spare = least;
	*lag = rounds_lag(v);
	*wait = (others(v, takes).sum + takes(&vfs[v], NULL)) *
		(1 + floor((vfs[v].late + least) / vfs[v].turn));
}

static void ring(uint32_t v, double *lag, double *wait)
{
	double own;

	spare = 0;
	own = takes(&vfs[v], NULL);
	*lag = rounds_lag(v);
	*wait = (others(v, takes).sum + own) * (1 + floor(vfs[v].late / vfs[v].turn)) + own;
}

static double budget_of(const struct known *i, const struct known *)
{
	return i->budget;
}

static double is_server(const struct known *i, const struct known *)
{
	return i->budget > 0;
}

static void deadline(uint32_t v, double *lag, double *wait)
{
	double turn = most(most(2 * slice, vfs[v].budget), others(v, budget_of).most);
	double owes = vfs[v].late + least / 16 + 2 * w;

	*lag = *wait = INFINITY;
	if (vfs[v].budget > 0)
		*wait = turn + (2 + others(v, is_server).sum) * late + w +
			(2 + floor(owes / vfs[v].budget)) * (vfs[v].period + turn + late);
}

static void best_effort(uint32_t, double *lag, double *wait)
{
	*lag = *wait = INFINITY;
}

static const struct {
	const char *name, *share;
	void (*formulas)(uint32_t v, double *lag, double *wait);
} policies[] = {
	{"fair", "weight", fair},     {"qos", "weight", qos},
	{"prio", "weight", prio},     {"wdrr", "weight", wdrr},
	{"strict", "slots", ring},    {"equal", NULL, ring},
	{"deadline", NULL, deadline}, {"best-effort", NULL, best_effort},
};

#define SHARE(n)                                                                                   \
	{                                                                                          \
		.share = (n)                                                                       \
	}

static const struct set sets[] = {
	{"fair", 10000, 0.3, 1.7, {SHARE(100), SHARE(100)}, 0},
	{"fair", 4000, 0.1, 9, {SHARE(100), SHARE(300), SHARE(50)}, 0},
	{"fair", 1000, 1, 0.2, {SHARE(1), SHARE(10000), SHARE(77), SHARE(200), SHARE(200)}, 0},
	{"fair", 20000, 0, 33, {SHARE(400), SHARE(100), SHARE(100), SHARE(100)}, 0},
	{"qos", 4000, 0.3, 0.4, {SHARE(100), SHARE(100)}, 0},
	{"qos", 4000, 0.3, 0.4, {{100, 8000, 50000, 0}, SHARE(100), SHARE(300)}, 0},
	{"qos",
	 2000,
	 0.1,
	 0.2,
	 {{50, 5000, 50000, 0}, {70, 9000, 60000, 400000}, {100, 0, 33000, 100000}, SHARE(20)},
	 0},
	{"prio", 4000, 0.3, 1.7, {SHARE(100), SHARE(100)}, 0},
	{"prio", 1000, 1, 40, {SHARE(100), SHARE(10), SHARE(10000), SHARE(300)}, 0},
	{"prio", 20000, 0.05, 0.1, {SHARE(1), SHARE(1), SHARE(1), SHARE(1), SHARE(1), SHARE(1)}, 0},
	{"wdrr", 4000, 0.3, 1.7, {SHARE(100), SHARE(100)}, 0},
	{"wdrr", 2000, 0.1, 19, {SHARE(100), SHARE(300), SHARE(50)}, 0},
	{"wdrr", 20000, 1, 3, {SHARE(200), SHARE(10), SHARE(100), SHARE(100), SHARE(77)}, 0},
	{"strict", 2000, 0.3, 0.7, {SHARE(1), SHARE(1)}, 0},
	{"strict", 4000, 0.1, 19, {SHARE(1), SHARE(3), SHARE(2)}, 0},
	{"strict", 2000, 0.3, 1.7, {SHARE(2), SHARE(1), SHARE(1), SHARE(4)}, 1},
	{"equal", 2000, 0.3, 0.7, {SHARE(1), SHARE(1)}, 0},
	{"equal", 6000, 0.1, 25, {SHARE(1), SHARE(1), SHARE(1)}, 0},
	{"equal", 500, 1, 0.3, {SHARE(1), SHARE(1), SHARE(1), SHARE(1), SHARE(1), SHARE(1)}, 0},
	{"deadline", 4000, 0.3, 0.4, {{1, 5000, 50000, 0}, SHARE(1)}, 0},
	{"deadline", 4000, 0.3, 7, {{1, 3000, 40000, 0}, {1, 8000, 80000, 0}, SHARE(1)}, 0},
	{"deadline",
	 20000,
	 0.1,
	 0.2,
	 {{1, 2000, 33000, 0}, {1, 2000, 50000, 0}, {1, 9000, 99000, 0}},
	 0},
	{"best-effort", 6000, 0.3, 1, {SHARE(1), SHARE(1)}, 0},
	{"best-effort", 1000, 1, 0, {SHARE(1), SHARE(1), SHARE(1), SHARE(1)}, 0},
	{"best-effort", 6000, 0.1, 20, {SHARE(1)}, 0},
};

static void compare(const struct set *s, uint32_t v, const char *what, vgpu_nsec stated,
		    double formula)
{
	double ms = stated == VGPU_NEVER ? INFINITY : (double)stated / MS;

	if (ms == formula || fabs(ms - formula) <= 0.001 * formula)
		return;
	printf("%s, set %u, VF %u: %s %.3f ms stated, %.3f ms in the document\n", s->policy,
	       (unsigned)(s - sets), v, what, ms, formula);
	CU_FAIL("a bound is not what the document says");
}

static void compare_all(const struct set *s, const struct vgpu_policy_ops *p, void *state)
{
	struct vgpu_bound b;
	double lag, wait;
	uint32_t v, k;

	for (k = 0; strcmp(policies[k].name, s->policy) != 0; k++)
		;
	for (v = 0; v < n; v++) {
		const struct vf *vf = &s->vfs[v];
		double limit = (double)vf->limit_ppm / 1e6;

		b = (struct vgpu_bound){0};
		p->bound(state, v, &b);
		policies[k].formulas(v, &lag, &wait);
		if (strcmp(s->policy, "qos") == 0 && (vf->budget_us || vf->limit_ppm))
			lag = INFINITY;
		compare(s, v, "max_lag", b.max_lag, lag);
		compare(s, v, "max_wait", b.max_wait, wait);
		compare(s, v, "budget", b.budget, vfs[v].budget);
		compare(s, v, "period", b.period, vfs[v].budget > 0 ? vfs[v].period : 0);
		CU_ASSERT_EQUAL(b.limit_ppm, vf->limit_ppm);
		if (b.limit_ppm)
			compare(s, v, "burst", b.burst,
				limit * vfs[v].period + 2 * vfs[v].budget + vfs[v].late);
	}
}

/* The parameters of VF V, and what is known of it at the beginning. */
static void configure(const struct set *s, const struct vgpu_policy_ops *p, uint32_t v,
		      int64_t *row)
{
	const struct vf *vf = &s->vfs[v];
	uint32_t k;

	vfs[v] = (struct known){.share = (double)vf->share,
				.budget = (double)vf->budget_us / 1000,
				.period = (double)vf->period_us / 1000};
	vfs[v].turn = slice * vfs[v].share / (strcmp(s->policy, "wdrr") == 0 ? 100 : 1);
	shares += vfs[v].share;
	vgpu_param_defaults(p->vf_params, row);
	for (k = 0; strcmp(policies[k].name, s->policy) != 0; k++)
		;
	if (policies[k].share)
		vhost_param(p->vf_params, row, policies[k].share, vf->share);
	if (vf->budget_us && strcmp(s->policy, "deadline") == 0) {
		vhost_param(p->vf_params, row, "budget_us", vf->budget_us);
		vhost_param(p->vf_params, row, "period_us", vf->period_us);
	} else if (vf->period_us) {
		vhost_param(p->vf_params, row, "min_ppm", vf->budget_us * 1000000 / vf->period_us);
		vhost_param(p->vf_params, row, "period_ms", vf->period_us / 1000);
		if (vf->limit_ppm)
			vhost_param(p->vf_params, row, "max_ppm", vf->limit_ppm);
	}
}

/* One turn, which ends late. */
static void turn(const struct set *s, const struct vgpu_policy_ops *p, void *state)
{
	struct vgpu_pick pick = {.vf = VGPU_NO_VF, .park_until = VGPU_NEVER};
	struct vgpu_usage usage;
	vgpu_nsec start = VGPU_SEC;

	p->pick(state, &pick, start);
	CU_ASSERT_FATAL(pick.vf < n);
	start += (vgpu_nsec)(w * MS);
	start = pick.not_before > start ? pick.not_before : start;
	if (p->run)
		p->run(state, pick.vf, start);
	late = s->late_ms;
	usage = (struct vgpu_usage){.vf = pick.vf,
				    .start = start,
				    .granted = pick.slice,
				    .overrun = (vgpu_nsec)(late * MS)};
	usage.used = usage.charge = usage.granted + usage.overrun;
	usage.end = start + usage.used;
	p->account(state, &usage);
	vfs[pick.vf].late = late;
	vfs[pick.vf].debt = (double)usage.charge / MS;
}

static void facts_of(struct vgpu_facts *facts, vgpu_nsec switch_ns)
{
	*facts = (struct vgpu_facts){.max_vfs = MOST,
				     .switch_ns = switch_ns,
				     .switch_high_ns = switch_ns,
				     .min_slice_ns = (vgpu_nsec)(least * MS),
				     .max_slice_ns = 500 * VGPU_MSEC,
				     .min_run_ns = (vgpu_nsec)(least * MS),
				     .grace_ns = 50 * VGPU_MSEC,
				     .window_ns = VGPU_SEC};
}

static void run_set(const struct set *s)
{
	const struct vgpu_policy_ops *p = vgpu_builtin_policy(s->policy);
	struct vgpu_facts facts;
	int64_t params[VGPU_MAX_PARAMS], row[VGPU_MAX_PARAMS];
	const char *why = "";
	void *state = calloc(1, p->memory(MOST));
	uint32_t v;

	facts_of(&facts, (vgpu_nsec)(s->w_ms * MS));
	w = s->w_ms;
	slice = (double)s->slice_us / 1000;
	favour = strcmp(s->policy, "fair") == 0 ? slice / 4 : 0;
	shares = late = 0;
	donates = s->donates;
	vgpu_param_defaults(p->params, params);
	vhost_param(p->params, params, strcmp(s->policy, "wdrr") == 0 ? "quantum_us" : "slice_us",
		    s->slice_us);
	if (donates)
		vhost_param(p->params, params, "idle", 1);
	p->attach(state, &facts, params);
	for (n = 0; n < MOST && s->vfs[n].share; n++) {
		configure(s, p, n, row);
		CU_ASSERT_FATAL(p->admit(state, n, row, 0, &why));
		p->online(state, n, 0);
	}
	compare_all(s, p, state);
	for (v = 0; v < n; v++)
		p->wake(state, v, VGPU_SEC);
	compare_all(s, p, state);
	turn(s, p, state);
	compare_all(s, p, state);
	free(state);
}

/* Servers, driven by hand: VF 0 has 5 ms in 50, VF 1 has 2 ms in 20, VF 2 only what they leave. */
static const struct vgpu_policy_ops *servers;
static struct vgpu_facts gpu;
static void *server_state;
static vgpu_nsec now;
static uint32_t running;
static vgpu_nsec granted, began;

static void servers_begin(void)
{
	static const int64_t budgets[][2] = {{5000, 50000}, {2000, 20000}, {0, 33000}};
	int64_t params[VGPU_MAX_PARAMS], row[VGPU_MAX_PARAMS];
	const char *why;
	uint32_t v;

	servers = vgpu_builtin_policy("deadline");
	facts_of(&gpu, 300 * VGPU_USEC);
	server_state = calloc(1, servers->memory(MOST));
	vgpu_param_defaults(servers->params, params);
	servers->attach(server_state, &gpu, params);
	for (v = 0; v < 3; v++) {
		row[0] = budgets[v][0];
		row[1] = budgets[v][1];
		CU_ASSERT_FATAL(servers->admit(server_state, v, row, 0, &why));
		servers->online(server_state, v, 0);
	}
	now = VGPU_SEC;
}

/* The policy decides; returns which VF runs after a switch, or VGPU_NO_VF. */
static uint32_t decide(void)
{
	struct vgpu_pick pick = {.vf = VGPU_NO_VF, .park_until = VGPU_NEVER};

	servers->pick(server_state, &pick, now);
	running = pick.vf;
	granted = pick.slice;
	if (running != VGPU_NO_VF) {
		now += gpu.switch_ns;
		servers->run(server_state, running, now);
	}
	began = now;
	return running;
}

static void stopped(enum vgpu_end reason)
{
	struct vgpu_usage usage = {.vf = running,
				   .reason = reason,
				   .start = began,
				   .end = now,
				   .granted = granted,
				   .used = now - began,
				   .charge = now - began};

	servers->account(server_state, &usage);
}

/* VF 0 runs for so long and is interrupted by VF 1, which has a job of 1 ms. IDLE: VF 0 runs out of
 * work while it is being stopped. */
static void interrupted_after(vgpu_nsec t, bool idle)
{
	servers_begin();
	servers->wake(server_state, 0, now);
	CU_ASSERT_EQUAL(decide(), 0);
	now += t;
	CU_ASSERT(servers->wake(server_state, 1, now));
	if (idle)
		servers->sleep(server_state, 0, now);
	stopped(VGPU_END_WAKE_PREEMPT);
	CU_ASSERT_EQUAL(decide(), 1);
	now += VGPU_MSEC;
	servers->sleep(server_state, 1, now);
	stopped(VGPU_END_YIELD);
}

/* A server is not charged for the switch back to a job that another server has interrupted: what it
 * is promised stays whole. */
TEST(resumed, "a job that was interrupted")
{
	struct vgpu_bound b = {0};

	interrupted_after(4 * VGPU_MSEC, false);
	CU_ASSERT_EQUAL(decide(), 0);
	now += 950 * VGPU_USEC;
	servers->sleep(server_state, 0, now);
	stopped(VGPU_END_YIELD);
	now += 60 * VGPU_MSEC;
	servers->wake(server_state, 0, now);
	servers->bound(server_state, 0, &b);
	CU_ASSERT_EQUAL(b.budget, 5 * VGPU_MSEC);
	free(server_state);
}

/* A server that wakes with less left than its switch needs waits for its next period, whatever
 * ended its last turn: it would preempt another one for a deadline that is less than a period away.
 */
TEST(rests, "a rest that is too short")
{
	interrupted_after(4500 * VGPU_USEC, true);
	servers->wake(server_state, 2, now);
	CU_ASSERT_EQUAL(decide(), 2);
	now += VGPU_MSEC;
	CU_ASSERT_FALSE(servers->wake(server_state, 0, now));
	while (running == 2) {
		now = began + granted;
		stopped(VGPU_END_SLICE);
		decide();
	}
	CU_ASSERT_EQUAL(running, 0);
	CU_ASSERT_EQUAL(now, VGPU_SEC + 50 * VGPU_MSEC + gpu.switch_ns);
	free(server_state);
}

/* The sets of each policy are a test, so that one can be run by its name. */
static void run_sets(const char *policy)
{
	uint32_t i;

	for (i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		if (strcmp(sets[i].policy, policy) == 0)
			run_set(&sets[i]);
}

#define TEST_OF(function, policy)                                                                  \
	static void function##_states(void)                                                        \
	{                                                                                          \
		run_sets(policy);                                                                  \
	}
TEST_OF(fair, "fair")
TEST_OF(qos, "qos")
TEST_OF(prio, "prio")
TEST_OF(wdrr, "wdrr")
TEST_OF(strict, "strict")
TEST_OF(equal, "equal")
TEST_OF(deadline, "deadline")
TEST_OF(best_effort, "best-effort")

/* A budget that is longer than the longest turn is had in full: the switch between two turns is
 * admission's. */
TEST(long_budgets, "a budget of several turns")
{
	int64_t row[VGPU_MAX_PARAMS] = {600000, 5000000};
	const char *why;

	servers_begin();
	CU_ASSERT_FATAL(servers->set_vf(server_state, 0, row, now, &why));
	servers->wake(server_state, 0, now);
	CU_ASSERT_EQUAL(decide(), 0);
	CU_ASSERT_EQUAL(granted, 600 * VGPU_MSEC);
	granted = gpu.max_slice_ns;
	now += granted;
	stopped(VGPU_END_SLICE);
	CU_ASSERT_EQUAL(decide(), 0);
	CU_ASSERT_EQUAL(granted, 100 * VGPU_MSEC);
	free(server_state);
}

TEST_ROW(fair_states, "fair");
TEST_ROW(qos_states, "qos");
TEST_ROW(prio_states, "prio");
TEST_ROW(wdrr_states, "wdrr");
TEST_ROW(strict_states, "strict");
TEST_ROW(equal_states, "equal");
TEST_ROW(deadline_states, "deadline");
TEST_ROW(best_effort_states, "best-effort");

SUITE_MAIN("what policies state")
