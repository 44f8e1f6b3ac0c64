/* SPDX-License-Identifier: MIT */
/* What a decision costs: pick + run + account, against the number of VFs. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "builtin.h"

#define ROUNDS 9

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t rng = 88172645463325252u;

static uint64_t next_random(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

static double decide(const struct vgpu_policy_ops *p, void *state, uint32_t count, vgpu_nsec *t)
{
	double begin = now_ns();
	uint32_t i;

	for (i = 0; i < count; i++) {
		struct vgpu_pick pick = {.vf = VGPU_NO_VF, .park_until = VGPU_NEVER};
		struct vgpu_usage usage;
		vgpu_nsec used;

		p->pick(state, &pick, *t);
		if (p->run)
			p->run(state, pick.vf, *t);
		used = pick.slice + (next_random() & 0x3ffff);
		usage = (struct vgpu_usage){.vf = pick.vf,
					    .start = *t,
					    .end = *t + used,
					    .granted = pick.slice,
					    .used = used,
					    .overrun = used - pick.slice,
					    .charge = used};
		*t += used + 100000;
		p->account(state, &usage);
	}
	return (now_ns() - begin) / count;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	static const uint32_t sizes[] = {8, 64, 256, 1024, 4096, 16384};
	int64_t params[16], row[16];
	double samples[ROUNDS];
	const char *why;
	unsigned p, s, i;
	bool first = true;

	printf("{\"bench\":\"policy\",\"unit\":\"ns per pick+account\",\"results\":[");
	for (p = 0; vgpu_builtin_policies[p]; p++) {
		const struct vgpu_policy_ops *policy = vgpu_builtin_policies[p];

		for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			struct vgpu_facts facts = {.max_vfs = sizes[s],
						   .switch_ns = 100000,
						   .switch_high_ns = 100000,
						   .min_slice_ns = 500000,
						   .max_slice_ns = 500000000};
			void *state = calloc(1, policy->memory(sizes[s]));
			vgpu_nsec t = 0;

			for (i = 0; policy->params[i].name; i++)
				params[i] = policy->params[i].def;
			policy->attach(state, &facts, params);
			for (i = 0; policy->vf_params[i].name; i++)
				row[i] = policy->vf_params[i].def;
			for (i = 0; i < sizes[s]; i++) {
				if (policy == vgpu_builtin_policy("fair"))
					row[0] = 1 + (int64_t)(next_random() % 1000);
				policy->admit(state, i, row, 0, &why);
				policy->online(state, i, 0);
				policy->wake(state, i, 0);
			}
			decide(policy, state, 4 * sizes[s], &t);
			for (i = 0; i < ROUNDS; i++)
				samples[i] = decide(policy, state, 100000, &t);
			qsort(samples, ROUNDS, sizeof(double), compare);
			printf("%s\n {\"policy\":\"%s\",\"vfs\":%u,\"min\":%.1f,\"median\":%.1f,"
			       "\"max\":%.1f}",
			       first ? "" : ",", policy->name, sizes[s], samples[0],
			       samples[ROUNDS / 2], samples[ROUNDS - 1]);
			first = false;
			free(state);
		}
	}
	printf("]}\n");
	return 0;
}
