/* SPDX-License-Identifier: MIT */
/*
 * A GPU's capacity for VMs, for programs that place VMs on hosts: the guaranteed shares that the
 * policy would really admit. Sums of rates do not show that, because switches take time, and a
 * guarantee has a minimum size. So the policy is tried (trial.h). Control thread.
 */
#pragma once

#include "control/call.h"

/* Makes the answer of "gpu.capacity" from the call's snapshot; the caller frees it. It tries
 * the policy some 40 times, which takes 30 ms for 31 VFs: too long for readers. */
struct json_object *capacity_json(struct call *call);

/* Returns the largest share that the policy would guarantee to one more VM now, in per mille; 0: it
 * guarantees none, no VF is free, or the GPU is lost. Tries the policy 11 times if VFs' parameters
 * or the free VF have changed since the last call, up to 31 times if the policy, the configuration
 * or the world-switch time have changed, and otherwise not at all. */
int64_t capacity_largest_free(struct gpu *gpu, const struct engine_snapshot *s);
