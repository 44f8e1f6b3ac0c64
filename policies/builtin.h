/* SPDX-License-Identifier: MIT */
/* The built-in policies. */
#pragma once

#include "vgpu/policy.h"

/* All built-in policies, NULL-terminated, in the order in which they are shown. */
extern const struct vgpu_policy_ops *const vgpu_builtin_policies[];

/* Returns the policy called NAME, or known elsewhere by that name (fixed-share, equal-share); NULL
 * if there is none. The policy is static. */
const struct vgpu_policy_ops *vgpu_builtin_policy(const char *name);

/* The policy that replaces one that broke its contract. */
extern const struct vgpu_policy_ops *const vgpu_fallback_policy;
