/* SPDX-License-Identifier: MIT */
/*
 * equal: turns of one length for all VFs whose guest driver is up; VFs without work are left out.
 * Simple and without parameters per VF, it also takes over from a policy that broke its contract.
 * (NVIDIA's "equal share", with overruns charged in full.)
 */
#include "ring_promise.h"

enum { P_SLICE, P_FACTOR, P_MODE, P_OVERHEAD, P_ROTATION };

static const struct vgpu_param params[] = {
	[P_SLICE] = AUTO_SLICE_PARAM("length of one turn", 2000),
	[P_FACTOR] = RING_FACTOR_PARAM,
	[P_MODE] = AUTO_SLICE_MODE_PARAM,
	[P_OVERHEAD] = AUTO_SLICE_OVERHEAD_PARAM,
	[P_ROTATION] = AUTO_SLICE_ROTATION_PARAM,
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {{.name = NULL}};

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct ring *r = state;

	(void)now;
	r->factor = values[P_FACTOR];
	auto_slice_set(&r->length, values[P_SLICE], values[P_MODE], values[P_OVERHEAD],
		       values[P_ROTATION]);
	ring_change(r);
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct ring *r = state;

	ring_attach(r, facts);
	r->idle = RING_COMPRESS;
	set_params(state, values, 0);
}

static bool set_vf(void *state, uint32_t vf, const int64_t *values, vgpu_nsec now, const char **why)
{
	(void)state;
	(void)vf;
	(void)values;
	(void)now;
	(void)why;
	return true;
}

static bool admit(void *state, uint32_t vf, const int64_t *values, vgpu_nsec now, const char **why)
{
	struct ring *r = state;

	r->vfs[vf].admitted = true;
	ring_set_slots(r, vf, 1);
	return set_vf(state, vf, values, now, why);
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	RING_OPS,
	.name = "equal",
	.help = "equal turns for all VFs that have work, overruns charged in full",
	.promises = VGPU_PROMISE_WORK_CONSERVING | VGPU_PROMISE_PROPORTIONAL |
		    VGPU_PROMISE_NO_STARVATION,
	.params = params,
	.vf_params = vf_params,
	.attach = attach,
	.set_params = set_params,
	.admit = admit,
	.set_vf = set_vf,
};
