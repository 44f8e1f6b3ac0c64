/* SPDX-License-Identifier: MIT */
/*
 * Seeded random runs of the core under every policy, with faults; the invariants are checked after
 * every step by tools/sim. A failing seed is printed first; `VHOST_SEED=N` repeats it.
 */
#include <stdlib.h>

#include "builtin.h"
#include "suite.h"
#include "vhost.h"

static struct vhost_range range(struct vhost *h, vgpu_nsec min, vgpu_nsec max)
{
	vgpu_nsec a = min + vhost_random(h) % (max - min + 1);
	vgpu_nsec b = min + vhost_random(h) % (max - min + 1);

	return (struct vhost_range){a < b ? a : b, a < b ? b : a};
}

static void random_params(struct vhost *h, const struct vgpu_param *table, int64_t *values)
{
	unsigned i;

	memset(values, 0, VGPU_MAX_PARAMS * sizeof(*values));
	for (i = 0; table[i].name; i++) {
		int64_t span = table[i].max - table[i].min;

		/* Values near the default are more interesting than seconds-long slices. */
		if (span > 20000)
			span = 20000;
		values[i] = table[i].min + (int64_t)(vhost_random(h) % (uint64_t)(span + 1));
	}
}

enum { CALM = 0, FAULTS = 1 };

static void set_up(struct vhost *h, int level)
{
	uint32_t i;

	h->load = range(h, 0, 150 * VGPU_USEC);
	h->run = range(h, 0, 50 * VGPU_USEC);
	h->init = range(h, 0, 20 * VGPU_MSEC);
	h->window = range(h, 0, 30 * VGPU_MSEC);
	h->scrub = range(h, 0, 10 * VGPU_MSEC);
	h->reset = range(h, 0, 100 * VGPU_MSEC);
	h->timer_late = range(h, 0, 80 * VGPU_USEC);
	h->memory_fails_ppm = level == FAULTS ? 20000 : 0;
	for (i = 0; i < h->n_vfs; i++) {
		struct vhost_vf *vf = &h->vfs[i];

		vf->work = vhost_random(h) % 3 ? VHOST_BURSTS : VHOST_ALWAYS;
		vf->burst = range(h, 1000, 10 * VGPU_MSEC);
		vf->think = range(h, 0, 20 * VGPU_MSEC);
		vf->late = range(h, 0, vhost_random(h) % 4 ? 200 * VGPU_USEC : 5 * VGPU_MSEC);
		vf->save = range(h, 0, 300 * VGPU_USEC);
		if (level == FAULTS) {
			vf->hang_ppm = vhost_random(h) % 3 ? 0 : 2000;
			vf->reset_ppm = vhost_random(h) % 3 ? 0 : 2000;
			vf->window_ppm = vhost_random(h) % 2 ? 0 : 3000;
		}
	}
	h->config.chains = vhost_random(h) % 2;
	if (level == FAULTS) {
		h->command_fails_ppm = vhost_random(h) % 2 ? 0 : 50;
		h->reset_fails_ppm = vhost_random(h) % 2 ? 0 : 100000;
		h->config.gpu_reset = vhost_random(h) % 2;
		if (vhost_random(h) % 10 == 0)
			h->refuse_windows_end = true;
	}
}

static unsigned n_policies(void)
{
	unsigned n = 0;

	while (vgpu_builtin_policies[n])
		n++;
	return n;
}

/* Requested changes of memory, moved partitions, and VMs that came from other hosts. */
static uint64_t changes, moves, visits;

/* The VF to which the world switch in progress leads; else VF. */
static uint32_t coming(struct vhost *h, uint32_t vf)
{
	struct vgpu_vf_view view;
	uint32_t i;

	for (i = 0; i < h->n_vfs; i++) {
		vgpu_core_vf_view(h->core, i, &view);
		if (view.comes && !view.on_engine)
			vf = i;
	}
	return vf;
}

/* A VM comes from another host, or one that has come resumes; what it says that it owes may be no
 * debt, or more than a VF can owe. */
static void visit(struct vhost *h, uint32_t vf)
{
	static const int64_t owed[] = {0, VGPU_MSEC, 50 * VGPU_MSEC, INT64_MAX, INT64_MIN, -1};

	if (h->vfs[vf].incoming) {
		vhost_resumes(h, vf, owed[vhost_random(h) % (sizeof(owed) / sizeof(owed[0]))]);
		return;
	}
	vhost_comes(h, vf);
	visits += h->vfs[vf].incoming;
}

/* Draws what an operator does meanwhile, or a guest. */
static void meddle(struct vhost *h)
{
	static int64_t rows[64][VGPU_MAX_PARAMS];
	int64_t values[VGPU_MAX_PARAMS];
	uint32_t vf = (uint32_t)(vhost_random(h) % h->n_vfs), i;

	switch (vhost_random(h) % 7) {
	case 0: {
		const struct vgpu_policy_ops *policy =
			vgpu_builtin_policies[vhost_random(h) % n_policies()];

		random_params(h, policy->params, values);
		for (i = 0; i < h->n_vfs; i++)
			random_params(h, policy->vf_params, rows[i]);
		vhost_change_policy(h, policy, values, rows);
		break;
	}
	case 1: /* also while a change waits, and sometimes for a policy that is no longer in force
		 */
		random_params(h, vhost_policy(h)->vf_params, values);
		vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_SET_VF,
						    .vf = vf,
						    .params = values});
		random_params(h, vgpu_fallback_policy->params, values);
		vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_SET_POLICY,
						    .policy = vgpu_fallback_policy,
						    .params = values});
		break;
	case 2:
		vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_RESET_VF, .vf = coming(h, vf)});
		break;
	case 3: /* answers that the core does not wait for */
		vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_DONE,
						    .vf = (vf + 1) % (h->n_vfs + 1),
						    .code = VGPU_CMD_SHUTDOWN});
		vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_RELEASE, .vf = vf});
		break;
	case 4:
		vhost_event(h, &(struct vgpu_event){.type = VGPU_EV_BUSY, .vf = h->n_vfs + 3});
		break;
	case 5:
		vf = coming(h, vf);
		if (h->vfs[vf].up)
			vhost_guest_reset(h, vf);
		break;
	case 6:
		visit(h, vf);
		break;
	}
}

static void one(uint64_t seed, const struct vgpu_policy_ops *policy, int level, bool meddling,
		vgpu_nsec length)
{
	static int64_t rows[64][VGPU_MAX_PARAMS];
	int64_t params[VGPU_MAX_PARAMS];
	struct vgpu_core_view view;
	static struct vhost h;
	uint64_t c, m;
	uint32_t i;

	vhost_init(&h, 1 + (uint32_t)(seed % 9), seed);
	set_up(&h, level);
	random_params(&h, policy->params, params);
	for (i = 0; i < h.n_vfs; i++)
		random_params(&h, policy->vf_params, rows[i]);
	h.memory = meddling ? VHOST_MEMORY_FORCED : VHOST_MEMORY_CHANGES;
	vhost_start(&h, meddling ? policy : vhost_checked(policy, &h), params, rows);
	while (h.now < length && h.violations == 0) {
		vhost_run(&h, h.now + 50 * VGPU_MSEC);
		if (meddling)
			meddle(&h);
	}
	vgpu_core_view(h.core, &view);
	if (view.engine.evictions)
		vhost_fail(&h, "%s was evicted: %s", view.faulty, vgpu_fault_text(view.last_fault));
	if (h.violations)
		fprintf(stderr, "policy %s, level %d; repeat with VHOST_SEED=%llu\n", policy->name,
			level, (unsigned long long)seed);
	CU_ASSERT_EQUAL(h.violations, 0);
	vhost_memory_did(&h, &c, &m);
	changes += c;
	moves += m;
	vhost_finish(&h);
}

static void all(int level, bool meddling, unsigned seeds, vgpu_nsec length)
{
	const char *only = getenv("VHOST_SEED");
	unsigned p, s;

	for (p = 0; vgpu_builtin_policies[p]; p++) {
		if (only) {
			one(strtoull(only, NULL, 0), vgpu_builtin_policies[p], level, meddling,
			    length);
			continue;
		}
		for (s = 1; s <= seeds; s++)
			one(s, vgpu_builtin_policies[p], level, meddling, length);
	}
}

TEST(calm, "random tenants, no faults")
{
	all(CALM, false, 60, 2 * VGPU_SEC);
}

TEST(with_faults, "random tenants, hangs, resets, windows, failing commands")
{
	all(FAULTS, false, 150, 10 * VGPU_SEC);
}

TEST(with_faults_and_operators, "the same, with policies and parameters changed while it runs")
{
	changes = moves = visits = 0;
	all(FAULTS, true, 150, 10 * VGPU_SEC);
	printf("changes of memory %llu, partitions moved %llu, VMs that came %llu ... ",
	       (unsigned long long)changes, (unsigned long long)moves, (unsigned long long)visits);
	CU_ASSERT(getenv("VHOST_SEED") || (changes > 10000 && moves > 1000 && visits > 1000));
}

#define RESTART_VFS 3u
#define RESTART_STEPS 400u

/* The scenario of the restarts: three tenants with all kinds of times, all of which behave. */
static void begin_for_restart(struct vhost *h, const struct vgpu_policy_ops *policy, uint64_t seed)
{
	vhost_init(h, RESTART_VFS, seed);
	set_up(h, CALM);
	h->memory = VHOST_MEMORY_CLEARS;
	vhost_start(h, policy, NULL, NULL);
}

/* vgpud dies after step K, whatever it was about to do: the next one gives each VF a turn within a
 * second, and resets none, but for those whose driver was in its window: it starts again. */
static void restart_after(uint64_t k, const struct vgpu_policy_ops *policy, uint64_t seed)
{
	static struct vhost h;
	uint64_t before[RESTART_VFS];
	struct vgpu_vf_view view;
	bool up[RESTART_VFS];
	uint32_t i;

	begin_for_restart(&h, policy, seed);
	h.most_steps = k;
	vhost_run(&h, 100 * VGPU_SEC);
	h.most_steps = 0;
	for (i = 0; i < RESTART_VFS; i++)
		up[i] = h.vfs[i].up;
	vhost_restart(&h, policy, NULL, NULL);
	for (i = 0; i < RESTART_VFS; i++)
		before[i] = h.vfs[i].dispatches;
	vhost_run(&h, h.now + VGPU_SEC);
	for (i = 0; i < RESTART_VFS; i++) {
		vgpu_core_vf_view(h.core, i, &view);
		if (h.vfs[i].dispatches == before[i])
			vhost_fail(&h, "VF %u had no turn", i);
		if (view.ledger.resets > !up[i] || view.ledger.hangs)
			vhost_fail(&h, "VF %u was reset", i);
	}
	if (h.violations)
		fprintf(stderr, "policy %s, seed %llu, restart after step %llu\n", policy->name,
			(unsigned long long)seed, (unsigned long long)k);
	CU_ASSERT_EQUAL(h.violations, 0);
	vhost_finish(&h);
}

TEST(restarts, "a restart after each step")
{
	const char *only = getenv("VHOST_SEED");
	uint64_t seed = only ? strtoull(only, NULL, 0) : 7, k;
	unsigned p;

	for (p = 0; vgpu_builtin_policies[p]; p++)
		for (k = 1; k <= RESTART_STEPS; k++)
			restart_after(k, vgpu_builtin_policies[p], seed);
}

SUITE_MAIN("core and policies under random load")
