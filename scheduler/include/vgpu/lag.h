/* SPDX-License-Identifier: MIT */
/* The lag that a policy exports. A plug-in can answer anything. */
#pragma once

#include "vgpu/policy.h"

/* More than VFs fall behind by usual slices, and little enough to be added up and paid off soon. A
 * VF of `wdrr` can owe more: its turns are as long as slice * weight / 100. */
#define VGPU_LAG_MOST ((int64_t)(5 * VGPU_SEC))

/* Returns the policy's lag of an admitted VF, between -VGPU_LAG_MOST and VGPU_LAG_MOST. */
static inline int64_t vgpu_lag(const struct vgpu_policy_ops *policy, void *memory, uint32_t vf)
{
	int64_t lag = policy->export_lag(memory, vf);

	return lag > VGPU_LAG_MOST ? VGPU_LAG_MOST : lag < -VGPU_LAG_MOST ? -VGPU_LAG_MOST : lag;
}
