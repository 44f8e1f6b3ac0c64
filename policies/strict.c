/* SPDX-License-Identifier: MIT */
/*
 * strict: a fixed share. Every configured VF owns its slots of a repeating round, whether or not it
 * uses them. With idle=hold no other VF may use them: the engine stands still, and the turns of a
 * VF do not depend on what its neighbours do. (NVIDIA's "fixed share", AMD's software fairness mode
 * with dummy slots.) Neighbours still affect the measured world switch. With switch_us the room for
 * it is constant, and turns are the same to the nanosecond if all contexts have one size: a VF with
 * a larger context than the mean pays for that out of its own turns.
 */
#include "ring_promise.h"

enum { P_SLICE, P_IDLE, P_FACTOR, P_MODE, P_OVERHEAD, P_ROTATION, P_SWITCH };
enum { V_SLOTS };

static const char *const idle_modes[] = {"hold", "donate", "compress", NULL};

static const struct vgpu_param params[] = {
	[P_SLICE] = AUTO_SLICE_PARAM("length of one slot", 2000),
	[P_IDLE] = {"idle", "",
		    "what happens to the slot of a VF without work: hold (it stays empty), donate "
		    "(another VF may use it) or compress (it is left out)",
		    VGPU_PARAM_CHOICE, 0, 2, RING_HOLD, idle_modes},
	[P_FACTOR] = RING_FACTOR_PARAM,
	[P_MODE] = AUTO_SLICE_MODE_PARAM,
	[P_OVERHEAD] = AUTO_SLICE_OVERHEAD_PARAM,
	[P_ROTATION] = AUTO_SLICE_ROTATION_PARAM,
	[P_SWITCH] = {"switch_us", "us",
		      "time between slots for the world switch; 0: the measured time",
		      VGPU_PARAM_INT, 0, 100000, 0, NULL},
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {
	[V_SLOTS] = {"slots", "slots", "slots per round", VGPU_PARAM_INT, 1, 16, 1, NULL},
	{.name = NULL},
};

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct ring *r = state;

	(void)now;
	r->idle = (enum ring_idle)values[P_IDLE];
	r->factor = values[P_FACTOR];
	r->room = (vgpu_nsec)values[P_SWITCH] * VGPU_USEC;
	auto_slice_set(&r->length, values[P_SLICE], values[P_MODE], values[P_OVERHEAD],
		       values[P_ROTATION]);
	ring_change(r);
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct ring *r = state;

	ring_attach(r, facts);
	r->all_members = true;
	set_params(state, values, 0);
}

static bool set_vf(void *state, uint32_t vf, const int64_t *values, vgpu_nsec now, const char **why)
{
	struct ring *r = state;

	(void)now;
	(void)why;
	ring_set_slots(r, vf, values[V_SLOTS]);
	return true;
}

static bool admit(void *state, uint32_t vf, const int64_t *values, vgpu_nsec now, const char **why)
{
	struct ring *r = state;

	r->vfs[vf].admitted = true;
	ring_join(r, vf);
	return set_vf(state, vf, values, now, why);
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	RING_OPS,
	.name = "strict",
	.help = "fixed share: each configured VF owns its slots, used or not",
	.promises = VGPU_PROMISE_PROPORTIONAL | VGPU_PROMISE_NO_STARVATION,
	.params = params,
	.vf_params = vf_params,
	.attach = attach,
	.set_params = set_params,
	.admit = admit,
	.set_vf = set_vf,
};
