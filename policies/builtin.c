/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "builtin.h"

extern const struct vgpu_policy_ops vgpu_policy_strict;
extern const struct vgpu_policy_ops vgpu_policy_equal;
extern const struct vgpu_policy_ops vgpu_policy_best_effort;
extern const struct vgpu_policy_ops vgpu_policy_fair;

const struct vgpu_policy_ops *const vgpu_builtin_policies[] = {
	&vgpu_policy_fair, &vgpu_policy_strict, &vgpu_policy_equal, &vgpu_policy_best_effort, NULL,
};

const struct vgpu_policy_ops *const vgpu_fallback_policy = &vgpu_policy_equal;

const struct vgpu_policy_ops *vgpu_builtin_policy(const char *name)
{
	unsigned i;

	for (i = 0; vgpu_builtin_policies[i]; i++)
		if (strcmp(vgpu_builtin_policies[i]->name, name) == 0)
			return vgpu_builtin_policies[i];
	return NULL;
}
