/* SPDX-License-Identifier: MIT */
/* The policies that are built in. */
#ifndef POLICIES_BUILTIN_H
#define POLICIES_BUILTIN_H

#include "vgpu/policy.h"

/* All of them, NULL-terminated, in the order in which they are shown. */
extern const struct vgpu_policy_ops *const vgpu_builtin_policies[];

/* The one called NAME, or known by it elsewhere (fixed-share, equal-share), or NULL. */
const struct vgpu_policy_ops *vgpu_builtin_policy(const char *name);

/* The one that takes over from a faulty policy. */
extern const struct vgpu_policy_ops *const vgpu_fallback_policy;

#endif
