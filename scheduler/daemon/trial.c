/* SPDX-License-Identifier: MIT */
#include "trial.h"

#include <errno.h>
#include <stdlib.h>

#include "builtin.h"
#include "vgpu/record.h"

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

int trial(const struct gpu_config *gpu, const struct policy_values *values, int32_t *vf,
	  struct vgpu_error *err)
{
	const struct vgpu_policy_ops *policy = values->policy;
	struct bench *b;
	int r;

	*vf = -1;
	if (policy->memory((uint32_t)gpu->vfs) > RECORD_SLOT_SIZE)
		return vgpu_error_set(err, -E2BIG, "policy %s: it needs more than %u KiB of memory",
				      policy->name, RECORD_SLOT_SIZE >> 10);
	b = make_bench(gpu, policy);
	if (!b)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = begin(b, values, vf);
	if (r < 0)
		vgpu_error_set(err, r, "policy %s: %s", policy->name,
			       b->out.why ? b->out.why : "refused, without a reason");
	if (policy->detach)
		policy->detach(b->policy, VGPU_DETACH_REPLACED, "it was only asked");
	free_bench(b);
	return r;
}
