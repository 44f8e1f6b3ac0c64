/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "builtin.h"

extern const struct vgpu_policy_ops vgpu_policy_strict;
extern const struct vgpu_policy_ops vgpu_policy_equal;
extern const struct vgpu_policy_ops vgpu_policy_best_effort;
extern const struct vgpu_policy_ops vgpu_policy_fair;
extern const struct vgpu_policy_ops vgpu_policy_qos;
extern const struct vgpu_policy_ops vgpu_policy_deadline;
extern const struct vgpu_policy_ops vgpu_policy_prio;
extern const struct vgpu_policy_ops vgpu_policy_wdrr;

const struct vgpu_policy_ops *const vgpu_builtin_policies[] = {
	&vgpu_policy_fair,  &vgpu_policy_qos,	      &vgpu_policy_strict,
	&vgpu_policy_equal, &vgpu_policy_deadline,    &vgpu_policy_prio,
	&vgpu_policy_wdrr,  &vgpu_policy_best_effort, NULL,
};

const struct vgpu_policy_ops *const vgpu_fallback_policy = &vgpu_policy_equal;

/* Other names of some policies, from NVIDIA's products. */
static const struct {
	const char *alias, *name;
} aliases[] = {
	{"fixed-share", "strict"},
	{"equal-share", "equal"},
};

const struct vgpu_policy_ops *vgpu_builtin_policy(const char *name)
{
	unsigned i;

	for (i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (strcmp(aliases[i].alias, name) == 0)
			name = aliases[i].name;
	for (i = 0; vgpu_builtin_policies[i]; i++)
		if (strcmp(vgpu_builtin_policies[i]->name, name) == 0)
			return vgpu_builtin_policies[i];
	return NULL;
}
