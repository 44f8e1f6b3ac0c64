/* SPDX-License-Identifier: MIT */
/* Tries a policy with parameters on a separate core or governor: whether it accepts them, and what
 * it would promise. Any thread. */
#pragma once

#include "config.h"

/*
 * Tests whether a GPU that is set up as GPU says could begin under VALUES: the same core and
 * policy, or the same governor and policy, decide as in an engine, with the world-switch time that
 * they assume before one was measured; or, for a GPU with policies of its own, whether it has a
 * matching one. CAPS decide which of these applies: engine_policy() has a GPU's. NULL: the GPU was
 * not opened, and its kind is unknown; then only values that every kind would refuse are refused.
 * Changes nothing. Returns 0; -EINVAL or -EOPNOTSUPP with the reason in ERR, and in *VF which VF is
 * refused (-1: the policy itself, or all of it together); -E2BIG: the policy needs too much memory;
 * -ENOMEM.
 */
int trial(const struct gpu_config *gpu, const struct vgpu_driver_caps *caps,
	  const struct policy_values *values, int32_t *vf, struct vgpu_error *err);

/* As trial(), for an opened GPU. SWITCH_NS is the world switch to count on; 0: the configured one.
 * The reason has the wording of an engine's refusal of a VF's parameters. */
int trial_admission(const struct gpu_config *gpu, const struct vgpu_driver_caps *caps,
		    const struct policy_values *values, vgpu_nsec switch_ns,
		    struct vgpu_error *err);

/* A policy's promises to one VF. */
struct trial_promise {
	uint64_t numerator, denominator; /* the VF's share */
	struct vgpu_bound bound;
	uint32_t least_ppm, leak_ppm; /* as in struct vgpu_governed_bound; 0 if vgpud switches */
};

/*
 * As trial(), for an opened GPU, and writes to OUT the policy's promises to each of the GPU's VFs
 * when it begins, before any VF has stopped late. SWITCH_NS is the world switch to count on; 0: the
 * configured one. Writes nothing on an error; a reason names the VF that is refused.
 */
int trial_promises(const struct gpu_config *gpu, const struct vgpu_driver_caps *caps,
		   const struct policy_values *values, vgpu_nsec switch_ns,
		   struct trial_promise *out, struct vgpu_error *err);
