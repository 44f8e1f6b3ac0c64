/* SPDX-License-Identifier: MIT */
/*
 * The cost of a decision (pick + run + account) by number of VFs and number of VFs with work. With
 * VFs that wake and sleep before each decision, the cost includes those changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "sample.h"

#define ROUNDS 9
#define MOST 16384u

static uint64_t rng = 88172645463325252u;

static uint64_t next_random(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static const struct load {
	const char *name;
	uint32_t awake;	  /* VFs that have work; 0: all */
	uint32_t changes; /* VFs that wake, and as many that sleep, before each decision */
	bool throttled;	  /* two VFs have budgets; the others, a limit (qos) or nothing */
} loads[] = {
	{"all awake", 0, 0, false},
	{"two awake", 2, 0, false},
	{"two awake, one wakes and one sleeps", 2, 1, false},
	{"half awake, four wake and four sleep", MOST, 4, false},
	{"two with a budget, the rest throttled", 0, 0, true},
};

/* One policy at work. */
struct bench {
	const struct vgpu_policy_ops *policy;
	const struct load *load;
	struct vgpu_facts facts;
	void *state;
	vgpu_nsec t;
	uint32_t order[MOST]; /* VFs; the first `awake` have work */
	uint32_t awake;
};

static void swap(struct bench *b, uint32_t i, uint32_t k)
{
	uint32_t vf = b->order[i];

	b->order[i] = b->order[k];
	b->order[k] = vf;
}

static void wake(struct bench *b)
{
	uint32_t idle = b->facts.max_vfs - b->awake;

	if (idle == 0)
		return;
	swap(b, b->awake, b->awake + (uint32_t)(next_random() % idle));
	b->policy->wake(b->state, b->order[b->awake++], b->t);
}

static void sleep_vf(struct bench *b)
{
	if (b->awake == 0)
		return;
	swap(b, b->awake - 1, (uint32_t)(next_random() % b->awake));
	b->policy->sleep(b->state, b->order[--b->awake], b->t);
}

static void set(const struct bench *b, int64_t *row, const char *name, int64_t value)
{
	uint32_t i;

	for (i = 0; b->policy->vf_params[i].name; i++)
		if (strcmp(b->policy->vf_params[i].name, name) == 0)
			row[i] = value;
}

/* The first two VFs have 10 ms in 50; the others may have a thousandth of the time. */
static void limit(const struct bench *b, int64_t *row, uint32_t vf)
{
	set(b, row, "budget_us", vf < 2 ? 10000 : 0);
	set(b, row, "period_us", 50000);
	set(b, row, "min_ppm", vf < 2 ? 200000 : 0);
	set(b, row, "period_ms", 50);
	set(b, row, "max_ppm", vf < 2 ? 1000000 : 1000);
}

static void begin(struct bench *b)
{
	int64_t params[16], row[16];
	uint32_t n = b->facts.max_vfs, i;
	const char *why;

	b->state = calloc(1, b->policy->memory(n));
	b->t = 0;
	b->awake = 0;
	for (i = 0; b->policy->params[i].name; i++)
		params[i] = b->policy->params[i].def;
	b->policy->attach(b->state, &b->facts, params);
	for (i = 0; b->policy->vf_params[i].name; i++)
		row[i] = b->policy->vf_params[i].def;
	for (i = 0; i < n; i++) {
		if (b->policy == vgpu_builtin_policy("fair"))
			row[0] = 1 + (int64_t)(next_random() % 1000);
		if (b->load->throttled)
			limit(b, row, i);
		if (!b->policy->admit(b->state, i, row, 0, &why))
			abort(); /* a set that fits */
		b->policy->online(b->state, i, 0);
		b->order[i] = i;
	}
	n = b->load->awake == 0 ? n : b->load->awake == MOST ? n / 2 : b->load->awake;
	while (b->awake < n)
		wake(b);
}

static double decide(struct bench *b, uint32_t count)
{
	const struct vgpu_policy_ops *p = b->policy;
	double begun = sample_now();
	uint32_t i, k;

	for (i = 0; i < count; i++) {
		struct vgpu_pick pick = {.vf = VGPU_NO_VF, .park_until = VGPU_NEVER};
		struct vgpu_usage usage;
		vgpu_nsec used;

		for (k = 0; k < b->load->changes; k++) {
			wake(b);
			sleep_vf(b);
		}
		p->pick(b->state, &pick, b->t);
		if (pick.vf == VGPU_NO_VF) { /* a slot that is held empty */
			b->t = pick.park_until;
			continue;
		}
		if (pick.not_before > b->t)
			b->t = pick.not_before;
		if (p->run)
			p->run(b->state, pick.vf, b->t);
		used = pick.slice + (next_random() & 0x3ffff);
		usage = (struct vgpu_usage){.vf = pick.vf,
					    .donated = pick.flags & VGPU_PICK_DONATED,
					    .start = b->t,
					    .end = b->t + used,
					    .granted = pick.slice,
					    .used = used,
					    .overrun = used - pick.slice};
		usage.charge = usage.donated ? usage.overrun : used;
		b->t += used + 100000;
		p->account(b->state, &usage);
	}
	return (sample_now() - begun) / count;
}

static void measure(struct bench *b, bool first)
{
	double samples[ROUNDS];
	unsigned i;

	begin(b);
	decide(b, 4 * b->facts.max_vfs);
	for (i = 0; i < ROUNDS; i++)
		samples[i] = decide(b, 100000);
	qsort(samples, ROUNDS, sizeof(double), sample_compare_real);
	printf("%s\n {\"policy\":\"%s\",\"vfs\":%u,\"load\":\"%s\",\"min\":%.1f,\"median\":%.1f,"
	       "\"max\":%.1f}",
	       first ? "" : ",", b->policy->name, b->facts.max_vfs, b->load->name, samples[0],
	       samples[ROUNDS / 2], samples[ROUNDS - 1]);
	fflush(stdout);
	free(b->state);
}

/* Measures all policies, or the one that argv[1] names. */
int main(int argc, char **argv)
{
	static const uint32_t sizes[] = {8, 64, 256, 1024, 4096, MOST};
	static struct bench b;
	unsigned p, s, l;
	bool first = true;

	printf("{\"bench\":\"policy\",\"unit\":\"ns per pick+account\",\"results\":[");
	for (p = 0; vgpu_builtin_policies[p]; p++) {
		b.policy = vgpu_builtin_policies[p];
		for (l = 0; l < sizeof(loads) / sizeof(loads[0]); l++) {
			b.load = &loads[l];
			for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
				if (argc > 1 && b.policy != vgpu_builtin_policy(argv[1]))
					continue;
				b.facts = (struct vgpu_facts){.max_vfs = sizes[s],
							      .switch_ns = 100000,
							      .switch_high_ns = 100000,
							      .min_slice_ns = 500000,
							      .max_slice_ns = 500000000,
							      .min_run_ns = 500000,
							      .grace_ns = 50000000,
							      .window_ns = 1000000000};
				measure(&b, first);
				first = false;
			}
		}
	}
	printf("]}\n");
	return 0;
}
