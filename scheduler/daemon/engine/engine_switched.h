/* SPDX-License-Identifier: MIT */
/* GPUs that vgpud switches: the policies that they can keep. */
#pragma once

#include "engine_request.h"

/*
 * A policy that guarantees budgets admits them for VFs that stop at most its parameter late_us
 * late. On a GPU without preemption, a VF may stop up to GRACE late, when it is killed. Returns
 * NULL; or why the policy cannot keep its guarantees on a GPU with CAPS, a constant text. Any
 * thread.
 */
const char *engine_stops_too_late(const struct vgpu_driver_caps *caps, vgpu_nsec grace,
				  const struct vgpu_policy_ops *policy, const int64_t *params);
