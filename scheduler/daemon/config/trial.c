/* SPDX-License-Identifier: MIT */
#include "trial.h"

#include <errno.h>
#include <stdlib.h>

#include "builtin.h"
#include "engine/engine_declared.h"
#include "engine/engine_governed.h"
#include "engine/engine_switched.h"
#include "vgpu/clock.h"
#include "vgpu/record.h"

#define ONLY_ASKED "it was only asked"

/* At least the range of any GPU's firmware. */
static const struct vgpu_driver_caps any_firmware = {
	.kind = VGPU_DRIVER_PROGRAMMED,
	.quantum = {20 * VGPU_USEC, 100 * VGPU_SEC, 20 * VGPU_USEC},
	.timeout = {VGPU_USEC, 100 * VGPU_SEC, VGPU_USEC},
	.keeps_turns = true,
};

/* The question, and the place for the answer. */
struct question {
	const struct gpu_config *gpu;
	const struct policy_values *values;
	vgpu_nsec switch_ns;	   /* the world switch that the core counts on; 0: its assumption */
	struct trial_promise *out; /* NULL: the question is only whether the policy can begin */
	int32_t vf;		   /* the VF that is refused, or -1 */
};

/* The memory of a core, in one block. */
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

static struct bench *make_bench(const struct question *q)
{
	const struct vgpu_policy_ops *policy = q->values->policy;
	struct bench *b = calloc(1, sizeof(*b));
	uint32_t n = (uint32_t)q->gpu->vfs;

	if (!b)
		return NULL;
	config_to_engine(q->gpu, &b->config);
	if (q->switch_ns)
		b->config.core.switch_nominal = q->switch_ns;
	b->core_memory = calloc(1, vgpu_core_size(n));
	b->fallback = calloc(1, vgpu_fallback_policy->memory(n));
	b->policy = calloc(1, policy->memory(n));
	if (b->core_memory && b->fallback && b->policy)
		return b;
	free_bench(b);
	return NULL;
}

/* Sets the core up as an engine does. For promises, all VFs are up: some policies divide the engine
 * between the VFs that are up. */
static int build_core(struct bench *b, struct question *q)
{
	const struct policy_values *values = q->values;
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
		if (q->out) {
			event.code = VGPU_CTX_SAVED;
			event.value = 1;
		}
		r = vgpu_core_step(b->core, &event, &b->out);
		q->vf = (int32_t)i;
	}
	return r;
}

static void note_core(const struct bench *b, struct trial_promise *out)
{
	struct vgpu_vf_view view;
	uint32_t i;

	for (i = 0; i < b->config.core.max_vfs; i++) {
		vgpu_core_vf_view(b->core, i, &view);
		out[i] = (struct trial_promise){.numerator = view.share_numerator,
						.denominator = view.share_denominator,
						.bound = view.bound};
	}
}

static int ask_core(struct question *q, struct vgpu_error *err)
{
	const struct vgpu_policy_ops *policy = q->values->policy;
	struct bench *b = make_bench(q);
	int r;

	if (!b)
		return vgpu_error_set(err, -ENOMEM, "out of memory");
	r = build_core(b, q);
	if (r < 0)
		vgpu_error_set(err, r, "policy %s: %s", policy->name,
			       b->out.why ? b->out.why : "refused, without a reason");
	else if (q->out)
		note_core(b, q->out);
	if (policy->detach)
		policy->detach(b->policy, VGPU_DETACH_REPLACED, ONLY_ASKED);
	free_bench(b);
	return r;
}

/* What holds once the GPU does what the nominal plan says. */
static void note_governor(struct vgpu_governor *g, const struct question *q,
			  const struct vgpu_driver_caps *caps, void *memory)
{
	struct vgpu_governor_output out;
	struct vgpu_program plan;
	struct vgpu_governed_vf_view view;
	struct trial_promise *p = q->out;
	uint32_t i;

	vgpu_governor_step(g,
			   &(struct vgpu_governor_event){.now = vgpu_now(),
							 .type = VGPU_GOVERNOR_START},
			   &out);
	plan = out.plan;
	if (out.program)
		vgpu_governor_step(g,
				   &(struct vgpu_governor_event){.now = vgpu_now(),
								 .type = VGPU_GOVERNOR_PROGRAMMED,
								 .applied = &plan},
				   &out);
	for (i = 0; i < (uint32_t)q->gpu->vfs; i++, p++) {
		vgpu_governor_vf_view(g, i, &view);
		if (caps->no_usage)
			view.bound.max_lag = VGPU_NEVER;
		*p = (struct trial_promise){.bound = {.max_lag = view.bound.max_lag,
						      .max_wait = view.bound.max_wait},
					    .least_ppm = view.bound.least_ppm,
					    .leak_ppm = view.bound.leak_ppm};
		q->values->policy->share(memory, i, &p->numerator, &p->denominator);
	}
}

static int ask_governor(const struct question *q, const struct vgpu_driver_caps *caps,
			struct vgpu_error *err)
{
	const struct gpu_config *gpu = q->gpu;
	const struct policy_values *values = q->values;
	const struct vgpu_policy_ops *policy = values->policy;
	struct vgpu_program applied = {.keep_turns = false};
	struct vgpu_governor_output out = {.why = NULL};
	struct vgpu_governor *governor;
	struct engine_config config;
	void *memory = calloc(1, policy->memory((uint32_t)gpu->vfs));
	void *state = calloc(1, vgpu_governor_size());
	int r = memory && state ? -EINVAL : -ENOMEM;

	out.why = "out of memory";
	config_to_engine(gpu, &config);
	governor = memory && state
			   ? engine_make_governor(state, caps, &config.core, &applied, &out.why)
			   : NULL;
	if (governor)
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
	else if (q->out)
		note_governor(governor, q, caps, memory);
	if (r == 0 && policy->detach)
		policy->detach(memory, VGPU_DETACH_REPLACED, ONLY_ASKED);
	free(state);
	free(memory);
	return r;
}

static int ask_declared(const struct question *q, struct vgpu_error *err)
{
	struct vgpu_declaration unused;
	const char *why = declaration_of(q->values, (uint32_t)q->gpu->vfs, &unused);
	uint32_t i;

	/* Such a GPU promises nothing, not even a share. */
	for (i = 0; i < (uint32_t)q->gpu->vfs && !why && q->out; i++)
		q->out[i] = (struct trial_promise){.denominator = 1,
						   .bound = {.max_lag = VGPU_NEVER,
							     .max_wait = VGPU_NEVER}};
	return why ? vgpu_error_set(err, -EOPNOTSUPP, "policy %s: %s", q->values->policy->name, why)
		   : 0;
}

static int try_values(struct question *q, const struct vgpu_driver_caps *caps,
		      struct vgpu_error *err)
{
	const struct vgpu_policy_ops *policy = q->values->policy;
	struct vgpu_error unused;
	const char *why;
	int r;

	q->vf = -1;
	if (policy->memory((uint32_t)q->gpu->vfs) > RECORD_SLOT_SIZE)
		return vgpu_error_set(err, -E2BIG, "policy %s: it needs more than %u KiB of memory",
				      policy->name, RECORD_SLOT_SIZE >> 10);
	if (caps && caps->kind == VGPU_DRIVER_DECLARED)
		return ask_declared(q, err);
	if (caps && caps->kind == VGPU_DRIVER_PROGRAMMED)
		return ask_governor(q, caps, err);
	why = caps ? engine_stops_too_late(caps, (vgpu_nsec)q->gpu->grace_ms * VGPU_MSEC, policy,
					   q->values->params)
		   : NULL;
	if (why)
		return vgpu_error_set(err, -EOPNOTSUPP, "policy %s: %s", policy->name, why);
	r = ask_core(q, err);
	if (r == -EINVAL && !caps && ask_governor(q, &any_firmware, &unused) == 0)
		return 0;
	return r;
}

int trial(const struct gpu_config *gpu, const struct vgpu_driver_caps *caps,
	  const struct policy_values *values, int32_t *vf, struct vgpu_error *err)
{
	struct question q = {.gpu = gpu, .values = values};
	int r = try_values(&q, caps, err);

	*vf = q.vf;
	return r;
}

int trial_admission(const struct gpu_config *gpu, const struct vgpu_driver_caps *caps,
		    const struct policy_values *values, vgpu_nsec switch_ns, struct vgpu_error *err)
{
	struct question q = {.gpu = gpu, .values = values, .switch_ns = switch_ns};

	return try_values(&q, caps, err);
}

int trial_promises(const struct gpu_config *gpu, const struct vgpu_driver_caps *caps,
		   const struct policy_values *values, vgpu_nsec switch_ns,
		   struct trial_promise *out, struct vgpu_error *err)
{
	struct question q = {.gpu = gpu, .values = values, .switch_ns = switch_ns, .out = out};
	int r = try_values(&q, caps, err);

	return r < 0 && q.vf >= 0 ? vgpu_error_prefix(err, r, "VF %d", q.vf) : r;
}
