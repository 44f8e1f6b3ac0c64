/* SPDX-License-Identifier: MIT */
/*
 * What a step of the governor costs: an epoch of 0.5 s with VFs that always work and stop late at
 * random, for each governed policy. `close` is a step that keeps the plan in force, `plan` one that
 * searches for another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "sample.h"
#include "vgpu/governor.h"

#define EPOCHS 2000u

static const char *const names[] = {"fair", "equal", "wdrr", "strict", NULL};
static uint64_t rng = 88172645463325252u;

static uint64_t any(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 33) % below;
}

struct figures {
	double costs[EPOCHS];
	uint32_t n;
};

static void print(const char *name, struct figures *f, const char *after)
{
	qsort(f->costs, f->n, sizeof(f->costs[0]), sample_compare_real);
	printf("\"%s_p50_us\": %.2f, \"%s_p99_us\": %.2f, \"%s_n\": %u%s", name,
	       f->n ? f->costs[f->n / 2] / 1e3 : 0, name,
	       f->n ? f->costs[f->n * 99 / 100] / 1e3 : 0, name, f->n, after);
}

static void measure(const struct vgpu_policy_ops *policy, uint32_t n, const char *after)
{
	static struct figures close, plan;
	struct vgpu_setting quantum = {VGPU_MSEC, 100 * VGPU_SEC, VGPU_MSEC};
	struct vgpu_setting timeout = {VGPU_USEC, 100 * VGPU_SEC, VGPU_USEC};
	int64_t params[VGPU_MAX_PARAMS], rows[VGPU_GPU_MAX_VFS * VGPU_MAX_PARAMS];
	vgpu_nsec active[VGPU_GPU_MAX_VFS] = {0}, total;
	struct vgpu_program in_force = {.keep_turns = false};
	struct vgpu_governor_config config;
	struct vgpu_governor_output out;
	struct vgpu_governor_event e = {.now = VGPU_SEC};
	struct vgpu_governor *g;
	void *memory = calloc(1, policy->memory(n));
	uint32_t i, k;
	double begin, took;

	vgpu_governor_defaults(&config, n, quantum, timeout);
	config.keeps_turns = true;
	g = vgpu_governor_init(calloc(1, vgpu_governor_size()), &config, &in_force, e.now);
	vgpu_param_defaults(policy->params, params);
	params[1] = policy->params[1].name && policy->params[1].type == VGPU_PARAM_CHOICE
			    ? 2 /* strict: idle = compress */
			    : params[1];
	for (i = 0; i < n; i++)
		vgpu_param_defaults(policy->vf_params, rows + (size_t)i * VGPU_MAX_PARAMS);
	e = (struct vgpu_governor_event){.now = e.now,
					 .type = VGPU_GOVERNOR_POLICY,
					 .policy = policy,
					 .memory = memory,
					 .params = params,
					 .vf_params = rows};
	vgpu_governor_step(g, &e, &out);
	e.type = VGPU_GOVERNOR_START;
	vgpu_governor_step(g, &e, &out);
	close.n = plan.n = 0;
	for (k = 0; k < EPOCHS; k++) {
		if (out.program) {
			in_force = out.plan;
			e.type = VGPU_GOVERNOR_PROGRAMMED;
			e.applied = &in_force;
			vgpu_governor_step(g, &e, &out);
		}
		total = 0;
		for (i = 0; i < n; i++)
			total += in_force.vfs[i].quantum + i % 3 * VGPU_MSEC;
		e.now = vgpu_governor_deadline(g);
		for (i = 0; i < n; i++)
			active[i] += (in_force.vfs[i].quantum + any(2 * (i % 3) + 1) * VGPU_MSEC) *
				     (config.epoch / total);
		e.type = VGPU_GOVERNOR_TIMER;
		vgpu_governor_step(g, &e, &out);
		e.type = VGPU_GOVERNOR_USAGE;
		e.active = active;
		begin = sample_now();
		vgpu_governor_step(g, &e, &out);
		took = sample_now() - begin;
		if (out.program)
			plan.costs[plan.n++] = took;
		else
			close.costs[close.n++] = took;
	}
	printf("  {\"policy\": \"%s\", \"vfs\": %u, ", policy->name, n);
	print("close", &close, ", ");
	print("plan", &plan, "}");
	puts(after);
	free(memory);
	free(g);
}

int main(void)
{
	uint32_t i, k;

	puts("{\"bench\": \"governor\", \"results\": [");
	for (i = 0; names[i]; i++)
		for (k = 0; vgpu_builtin_policies[k]; k++)
			if (strcmp(vgpu_builtin_policies[k]->name, names[i]) == 0) {
				measure(vgpu_builtin_policies[k], 4, ",");
				measure(vgpu_builtin_policies[k], 24, names[i + 1] ? "," : "");
			}
	puts("]}");
	return 0;
}
