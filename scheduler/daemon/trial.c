/* SPDX-License-Identifier: MIT */
#include "trial.h"

#include <errno.h>
#include <stdlib.h>

#include "builtin.h"
#include "engine_governed.h"
#include "vgpu/clock.h"
#include "vgpu/record.h"

#define ONLY_ASKED "it was only asked"

/* At least as much as any GPU's firmware can do. */
static const struct vgpu_driver_caps any_firmware = {
	.kind = VGPU_DRIVER_PROGRAMMED,
	.quantum = {20 * VGPU_USEC, 100 * VGPU_SEC, 20 * VGPU_USEC},
	.timeout = {VGPU_USEC, 100 * VGPU_SEC, VGPU_USEC},
	.keeps_turns = true,
};

/* What a core needs, in one piece of memory. */
struct bench {
	struct vgpu_output out;
	struct engine_config config;
	struct vgpu_core *core;
	void *core_memory, *fallback, *policy;
};

static void free_bench(struct bench *b)
{
	free(b->core_memory);
	free(b->fallback);
	free(b->policy);
	free(b);
}

static struct bench *make_bench(const struct gpu_config *gpu, const struct vgpu_policy_ops *policy)
{
	struct bench *b = calloc(1, sizeof(*b));
	uint32_t n = (uint32_t)gpu->vfs;

	if (!b)
		return NULL;
	config_to_engine(gpu, &b->config);
	b->core_memory = calloc(1, vgpu_core_size(n));
	b->fallback = calloc(1, vgpu_fallback_policy->memory(n));
	b->policy = calloc(1, policy->memory(n));
	if (b->core_memory && b->fallback && b->policy)
		return b;
	free_bench(b);
	return NULL;
}

/* Sets the core up as an engine does. */
static int begin(struct bench *b, const struct policy_values *values, int32_t *vf)
{
	struct vgpu_event event = {.type = VGPU_EV_POLICY,
				   .policy = values->policy,
				   .memory = b->policy,
				   .params = values->params,
				   .vf_params = values->vf_params[0]};
	uint32_t i;
	int r;

	b->core = vgpu_core_init(b->core_memory, &b->config.core, vgpu_fallback_policy, b->fallback,
				 0);
	r = vgpu_core_step(b->core, &event, &b->out);
	for (i = 0; r == 0 && i < b->config.core.max_vfs; i++) {
		event = (struct vgpu_event){.type = VGPU_EV_ADD,
					    .vf = i,
					    .policy = values->policy,
					    .params = values->vf_params[i]};
		r = vgpu_core_step(b->core, &event, &b->out);
		*vf = (int32_t)i;
	}
	return r;
}

static int ask_core(const struct gpu_config *gpu, const struct policy_values *values, int32_t *vf,
		    struct vgpu_error *err)
{
	const struct vgpu_policy_ops *policy = values->policy;
	struct bench *b = make_bench(gpu, policy);
	int r;

	if (!b)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = begin(b, values, vf);
	if (r < 0)
		vgpu_error_set(err, r, "policy %s: %s", policy->name,
			       b->out.why ? b->out.why : "refused, without a reason");
	if (policy->detach)
		policy->detach(b->policy, VGPU_DETACH_REPLACED, ONLY_ASKED);
	free_bench(b);
	return r;
}

static int ask_governor(const struct gpu_config *gpu, const struct vgpu_driver_caps *caps,
			const struct policy_values *values, struct vgpu_error *err)
{
	const struct vgpu_policy_ops *policy = values->policy;
	struct vgpu_program applied = {.keep_turns = false};
	struct vgpu_governor_output out = {.why = NULL};
	struct vgpu_governor *governor = NULL;
	struct engine_config config;
	void *memory = calloc(1, policy->memory((uint32_t)gpu->vfs));
	int r = -ENOMEM;

	out.why = "out of memory";
	config_to_engine(gpu, &config);
	if (memory)
		r = engine_make_governor(&governor, caps, &config.core, &applied, &out.why);
	if (r == 0)
		r = vgpu_governor_step(governor,
				       &(struct vgpu_governor_event){.now = vgpu_now(),
								     .type = VGPU_GOVERNOR_POLICY,
								     .policy = policy,
								     .memory = memory,
								     .params = values->params,
								     .vf_params =
									     values->vf_params[0]},
				       &out);
	if (r < 0)
		vgpu_error_set(err, r, "policy %s: %s", policy->name,
			       out.why ? out.why : "refused, without a reason");
	else if (policy->detach)
		policy->detach(memory, VGPU_DETACH_REPLACED, ONLY_ASKED);
	free(governor);
	free(memory);
	return r;
}

int trial(const struct gpu_config *gpu, const struct vgpu_driver_caps *caps,
	  const struct policy_values *values, int32_t *vf, struct vgpu_error *err)
{
	const struct vgpu_policy_ops *policy = values->policy;
	struct vgpu_error unused;
	int r;

	*vf = -1;
	if (policy->memory((uint32_t)gpu->vfs) > RECORD_SLOT_SIZE)
		return vgpu_error_set(err, -E2BIG, "policy %s: it needs more than %u KiB of memory",
				      policy->name, RECORD_SLOT_SIZE >> 10);
	if (caps && caps->kind == VGPU_DRIVER_PROGRAMMED)
		return ask_governor(gpu, caps, values, err);
	r = ask_core(gpu, values, vf, err);
	if (r == -EINVAL && !caps && ask_governor(gpu, &any_firmware, values, &unused) == 0)
		return 0;
	return r;
}
