/* SPDX-License-Identifier: MIT */
/* The simulator's own parts: scenarios as text, generators, models of other schedulers, and that
 * the prover finds broken policies. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "builtin.h"
#include "peer.h"
#include "prove.h"
#include "suite.h"

static char path[64];

static const char *file(const char *text)
{
	int fd;

	strcpy(path, "/tmp/vgpu-sim-test.XXXXXX");
	fd = mkstemp(path);
	CU_ASSERT(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	return path;
}

/* Errors name the line. */
TEST(mistakes, "scenarios: mistakes")
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "the number of VFs is missing"},
		{"vfs 0\n", ":1: vfs: want a number of VFs"},
		{"vfs 2\nvfs 2\n", ":2: vfs: given twice"},
		{"vf 0 work=always\n", ":1: 0: say how many VFs there are first"},
		{"vfs 2\nvf 2 work=always\n", ":2: 2: no such VF"},
		{"vfs 2\nvf 0 work=hard\n",
		 "want always, bursts, never, sleeper, script, periodic or windows"},
		{"vfs 2\nvf 0 late=fast\n", ":2: late=fast: invalid value"},
		{"vfs 2\nvf 0 late=5ms..1ms\n", ":2: late=5ms..1ms: invalid value"},
		{"vfs 2\ngpu colour=red\n", ":2: colour: no such setting"},
		{"vfs 2\nvf 1 wieght=3\n", ":2: wieght: no such setting"},
		{"vfs 2\nat 1s vf 1 wieght=3\n", ":2: wieght: no such setting"},
		{"vfs 2\npolicy fair slcie_us=3\n", ":2: slcie_us: no such setting"},
		{"vfs 2\n10 0 dance\n", ":2: dance: want arrive, work"},
		{"vfs 2\n10 0 work\n", ":2: work: takes one number"},
		{"vfs 2\n10 0 work 5\n5 0 work 5\n", ":3: 5: earlier than the line above"},
		{"vfs 2\nat 5s dance\n", ":2: dance: want policy NAME"},
		{"vfs 2\nat 5s reset 0\nat 4s reset 0\n", ":3: 4s: earlier than the line above"},
		{"vfs 2\nat 5s..6s reset 0\n", ":2: 5s..6s: want a time, or FIRST..LAST every"},
		{"vfs 2\nat 5s..6s every 0 reset 0\n", ":2: 5s..6s: want a time"},
		{"vfs 2\nat 5s..4s every 1s reset 0\n", ":2: 5s..4s: want a time"},
		{"vfs 2\nat 1s..2s every 1ms reset 0\n", ":2: 1s..2s: want a time"},
		{"vfs 2\nuntil soon\n", ":2: until: want a time"},
		{"vfs 2\nsing\n", ":2: sing: want vfs"},
		{"vfs 2\nvf 1 work=periodic burst=1ms\n", "VF 1: work=periodic needs a period"},
	};
	struct vgpu_error err;
	struct scenario s;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT(scenario_read(&s, file(cases[i].text), &err) < 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].says));
		if (!strstr(err.text, cases[i].says))
			printf("\n  '%s' does not say '%s'\n", err.text, cases[i].says);
		unlink(path);
	}
}

static char *written(const struct scenario *s)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	scenario_write(s, f);
	fclose(f);
	return text;
}

/* Lines that are repeated mix; at one instant, the upper line is first. */
TEST(repeated, "scenarios: repeated operations")
{
	static const char text[] = "vfs 1\nat 1ms..8ms every 3ms reset 0\n"
				   "at 2ms..4ms every 2ms params\nat 4ms restart\n";
	static const struct {
		vgpu_nsec t;
		int type;
	} want[] = {{1, OP_RESET},	{2, OP_SET_POLICY}, {4, OP_RESET},
		    {4, OP_SET_POLICY}, {4, OP_RESTART},    {7, OP_RESET}};
	struct vgpu_error err;
	struct scenario s;
	size_t i;

	CU_ASSERT_EQUAL_FATAL(scenario_read(&s, file(text), &err), 0);
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(s.n_ops, sizeof(want) / sizeof(want[0]));
	for (i = 0; i < s.n_ops; i++) {
		CU_ASSERT_EQUAL(s.ops[i].t, want[i].t * VGPU_MSEC);
		CU_ASSERT_EQUAL((int)s.ops[i].type, want[i].type);
	}
	scenario_free(&s);
}

/* What is written reads the same. */
TEST(round_trip, "scenarios: written and read")
{
	static const char text[] =
		"vfs 5\ngpus 2 least-loaded\nseed 7\nuntil 2500us\nwork_from 1ms\n"
		"gpu load=1us..20us timer_late=5 min_slice=500us gpu_reset=yes memory=4096\n"
		"policy qos slice_us=900\nvf 0 work=bursts burst=1ms think=2ms..3ms late=7 "
		"weight=20\nvf 1 work=sleeper\nvf 2 work=script\n"
		"vf 3 work=periodic period=16ms..17ms burst=4ms\n"
		"vf 4 work=windows window=900ms..1s\nat 1ms policy strict idle=donate\n"
		"at 2ms vf 1 weight=9\nat 2ms reset 0\n0 2 arrive\n5 2 work 100\n6 2 think 50\n"
		"7 2 param weight=3\n8 2 excl 4000\n9 2 hang\n10 2 mem 2048\n11 2 depart\n";
	char *first, *second;
	struct vgpu_error err;
	struct scenario s;

	CU_ASSERT_EQUAL_FATAL(scenario_read(&s, file(text), &err), 0);
	unlink(path);
	first = written(&s);
	scenario_free(&s);
	CU_ASSERT_EQUAL_FATAL(scenario_read(&s, file(first), &err), 0);
	unlink(path);
	second = written(&s);
	CU_ASSERT_STRING_EQUAL(first, second);
	CU_ASSERT_EQUAL(s.n_ops, 3);
	CU_ASSERT_EQUAL(s.vfs[2].n_items, 8);
	CU_ASSERT_EQUAL(s.vfs[3].work, VHOST_PERIODIC);
	CU_ASSERT_EQUAL(s.vfs[3].period.max, 17 * VGPU_MSEC);
	CU_ASSERT_EQUAL(s.vfs[4].work, VHOST_WINDOWS);
	CU_ASSERT_EQUAL(s.vfs[4].window.max, VGPU_SEC);
	scenario_free(&s);
	free(first);
	free(second);
}

/* VFs are placed by the rule; the error names the VF that does not fit. */
TEST(placement, "placement")
{
	struct vgpu_error err;
	struct scenario s;
	uint32_t i, per[4] = {0};

	scenario_init(&s, 40);
	s.n_gpus = 4;
	s.placement = PLACE_LEAST_LOADED;
	CU_ASSERT_EQUAL(scenario_place(&s, &err), 0);
	for (i = 0; i < 40; i++)
		per[s.vfs[i].gpu]++;
	for (i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(per[i], 10);
	s.memory = 100;
	s.placement = PLACE_FIRST_FIT;
	for (i = 0; i < 40; i++)
		*scenario_add_item(&s.vfs[i]) =
			(struct scenario_item){.kind = VHOST_MEM, .value = 60};
	CU_ASSERT_EQUAL(scenario_place(&s, &err), -28);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "VF 4: no GPU has 60 bytes"));
	scenario_free(&s);
}

/* One VF is always late: the share error of each rule over ten minutes, in per cent. EARLY: the
 * core issues IDLE earlier by how late that VF is; other schedulers' hosts do not. */
static double error_of(const struct vgpu_policy_ops *policy, bool early)
{
	struct vgpu_error err;
	struct scenario s;
	struct running r;
	double all = 0, worst = 0, got;
	uint32_t i;

	scenario_init(&s, 4);
	s.until = 600 * VGPU_SEC;
	s.work_from = VGPU_SEC;
	s.ask_at_end = !early;
	s.load = (struct vhost_range){100000, 100000};
	s.run = (struct vhost_range){50000, 50000};
	settings_set(&s.params, "slice_us", "2000");
	for (i = 0; i < 4; i++)
		s.vfs[i].save = (struct vhost_range){150000, 150000};
	s.vfs[3].late = (struct vhost_range){VGPU_MSEC, 2 * VGPU_MSEC};
	CU_ASSERT_EQUAL_FATAL(running_start(&r, &s, 0, policy, false, VHOST_MEMORY_NONE,
					    peer_or_policy, &err),
			      0);
	running_run(&r, s.until);
	for (i = 0; i < 4; i++)
		all += (double)vhost_service(&r.host, i);
	for (i = 0; i < 4; i++) {
		got = (double)vhost_service(&r.host, i) / all;
		worst = fmax(worst, fabs(got - 0.25) / 0.25);
	}
	CU_ASSERT_EQUAL(r.host.violations, 0);
	running_finish(&r);
	scenario_free(&s);
	return 100 * worst;
}

TEST(late_vf, "a late VF, under our rules and others'")
{
	static const char *const ours[] = {"strict", "fair", "qos", "equal", "wdrr"};
	double error;
	unsigned i;

	for (i = 0; i < 10; i++) {
		error = error_of(peer_or_policy(ours[i / 2]), i % 2);
		printf("[%s %.4f %%] ", ours[i / 2], error);
		CU_ASSERT(error <= 0.01);
	}
	/* The results of the studies: a rule that charges nothing loses half a share, averaging
	 * lets a little pass. */
	CU_ASSERT(error_of(peer_or_policy("best-effort"), false) > 40);
	CU_ASSERT(error_of(peer_or_policy("gvt-tbs"), false) > 15);
	error = error_of(peer_or_policy("nv-arr"), false);
	CU_ASSERT(error > 0.01 && error < 1);
	CU_ASSERT(error_of(peer_or_policy("nv-least"), false) < 0.01);
}

/* An averaging factor F: with an overshoot of o in each turn, a VF is ahead by F * o, no more. */
TEST(averaging, "nv-arr: the averaging factor's closed form")
{
	static const int64_t factors[] = {1, 8, 33};
	const struct vgpu_policy_ops *arr = peer_or_policy("nv-arr");
	const int64_t overshoot = 150 * (int64_t)VGPU_USEC, slice = 2 * (int64_t)VGPU_MSEC;
	struct vgpu_facts facts = {.max_vfs = 1,
				   .min_slice_ns = 500 * VGPU_USEC,
				   .max_slice_ns = 500 * VGPU_MSEC};
	int64_t params[VGPU_MAX_PARAMS], row[VGPU_MAX_PARAMS], ahead, used;
	const char *why;
	unsigned i, turn;
	vgpu_nsec t;
	void *state;

	for (i = 0; i < 3; i++) {
		state = calloc(1, arr->memory(1));
		vgpu_param_defaults(arr->params, params);
		vgpu_param_defaults(arr->vf_params, row);
		vhost_param(arr->params, params, "slice_us", slice / (int64_t)VGPU_USEC);
		vhost_param(arr->params, params, "avg_factor", factors[i]);
		arr->attach(state, &facts, params);
		CU_ASSERT(arr->admit(state, 0, row, 0, &why));
		arr->online(state, 0, 0);
		arr->wake(state, 0, 0);
		for (turn = 0, ahead = 0, t = 0; turn < 1000; turn++) {
			struct vgpu_pick pick = {.vf = VGPU_NO_VF};

			arr->pick(state, &pick, t);
			used = (int64_t)pick.slice + overshoot;
			t += (vgpu_nsec)used;
			ahead += used - slice;
			arr->account(state, &(struct vgpu_usage){.granted = pick.slice,
								 .used = (vgpu_nsec)used,
								 .charge = (vgpu_nsec)used,
								 .end = t});
		}
		CU_ASSERT(llabs(ahead - factors[i] * overshoot) <= factors[i]);
		free(state);
	}
}

/* The heap behind all O(log n) decisions, against a scan of all VFs. */
TEST(heap_against_scan, "the heap, against a scan")
{
	enum { N = 97 };
	uint64_t keys[N], rng = 1, key;
	bool in[N] = {false};
	struct heap heap;
	void *memory = calloc(1, heap_memory(N));
	uint32_t i, vf, first;
	unsigned step;

	heap_init(&heap, memory, N);
	for (step = 0; step < 200000; step++) {
		rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407;
		vf = (uint32_t)(rng >> 33) % N;
		/* Around the wrap, and often equal. */
		key = (rng >> 20) % 64 - 32;
		CU_ASSERT_EQUAL(heap_has(&heap, vf), in[vf]);
		if (in[vf])
			heap_remove(&heap, vf);
		else
			heap_insert(&heap, vf, key);
		keys[vf] = in[vf] ? keys[vf] : key;
		in[vf] = !in[vf];
		for (i = 0, first = VGPU_NO_VF; i < N; i++)
			if (in[i] && (first == VGPU_NO_VF || (int64_t)(keys[i] - keys[first]) < 0))
				first = i;
		CU_ASSERT_EQUAL(heap_first(&heap), first);
	}
	free(memory);
}

/* A policy that does not charge overruns while it promises shares: the prover finds it, and shrinks
 * the scenario. */
static const struct vgpu_policy_ops *honest;

static void forgiving_account(void *state, const struct vgpu_usage *usage)
{
	struct vgpu_usage lie = *usage;

	if (lie.charge > lie.granted)
		lie.charge = lie.granted;
	honest->account(state, &lie);
}

TEST(the_prover_finds, "the prover finds a policy that forgives")
{
	struct vgpu_policy_ops broken;
	struct proof p;

	honest = vgpu_builtin_policy("fair");
	broken = *honest;
	broken.account = forgiving_account;
	prove(&broken, 2000000, 1, NULL, &p);
	CU_ASSERT_FATAL(p.failed);
	CU_ASSERT(strstr(p.violation, "a pair of VFs") || strstr(p.violation, "ideal fluid"));
	CU_ASSERT(p.smallest.n_vfs <= 3);
	printf("[shrunk to %u VFs: %s] ", p.smallest.n_vfs, p.violation);
	scenario_free(&p.smallest);
}

/* Budgets are promised only where no VF stops later than the policy was told. */
TEST(judged, "budgets are judged where VFs stop in time")
{
	static const struct {
		const char *text;
		enum monitor_judges judges;
	} cases[] = {
		{"vfs 2\npolicy deadline\nvf 0 late=500us\n", MONITOR_ALL},
		{"vfs 2\npolicy deadline\nvf 1 late=501us\n", MONITOR_OTHERS},
		{"vfs 2\npolicy deadline late_us=600\nvf 1 late=501us\n", MONITOR_ALL},
		{"vfs 2\npolicy deadline\ngpu timer_late=100us\nvf 1 late=401us\n", MONITOR_OTHERS},
		{"vfs 2\npolicy deadline\nvf 1 rare=20ms rare_ppm=100\n", MONITOR_OTHERS},
		{"vfs 2\npolicy deadline\nat 1s policy deadline late_us=100\nvf 1 late=200us\n",
		 MONITOR_OTHERS},
		{"vfs 2\npolicy qos admission=sum\n", MONITOR_OTHERS},
	};
	struct vgpu_error err;
	struct scenario s;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL_FATAL(scenario_read(&s, file(cases[i].text), &err), 0);
		CU_ASSERT_EQUAL(prove_judges(&s), cases[i].judges);
		scenario_free(&s);
		unlink(path);
	}
}

/* For a VF that the policy does not admit, the reason is kept. */
TEST(refusals, "scenarios: refusals")
{
	static const char text[] = "vfs 2\npolicy deadline\n"
				   "vf * budget_us=9000 period_us=10000\nvf 1 budget_us=1000\n";
	struct vgpu_error err;
	struct scenario s;
	struct running r;

	CU_ASSERT_EQUAL_FATAL(scenario_read(&s, file(text), &err), 0);
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(running_start(&r, &s, 0, NULL, false, VHOST_MEMORY_NONE,
					    peer_or_policy, &err),
			      0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(r.host.vfs[0].refused);
	CU_ASSERT_PTR_NOT_NULL(strstr(r.host.vfs[0].refused, "leave too little time"));
	CU_ASSERT_PTR_NULL(r.host.vfs[1].refused);
	running_finish(&r);
	scenario_free(&s);
}

/* A timer that is late by 100 us makes each slice of VFs that stop at once longer by that. */
TEST(late_timers, "late timers")
{
	struct vgpu_vf_view v;
	struct vhost h;
	uint32_t i;

	vhost_init(&h, 2, 1);
	h.timer_late = (struct vhost_range){100 * VGPU_USEC, 100 * VGPU_USEC};
	vhost_start(&h, vgpu_builtin_policy("strict"), NULL, NULL);
	vhost_run(&h, VGPU_SEC);
	CU_ASSERT_EQUAL(h.violations, 0);
	for (i = 0; i < 2; i++) {
		vgpu_core_vf_view(h.core, i, &v);
		CU_ASSERT(v.ledger.ends[VGPU_END_SLICE] > 50);
		CU_ASSERT(v.ledger.overrun_ns >=
			  (v.ledger.ends[VGPU_END_SLICE] - 1) * 100 * VGPU_USEC);
		CU_ASSERT_EQUAL(v.ledger.max_overrun_ns, 100 * VGPU_USEC);
	}
	vhost_finish(&h);
}

SUITE_MAIN("simulator")
