/* SPDX-License-Identifier: MIT */
/* A machine for tests of a policy: three VFs at most, none of them special. */
#pragma once

#include "builtin.h"
#include "suite.h"
#include "vhost.h"

static struct vhost h;
static int64_t params[VGPU_MAX_PARAMS], rows[3][VGPU_MAX_PARAMS];
static const struct vgpu_policy_ops *policy;

/* N VFs that always have work and stop at once; switches take no time. */
static void machine(const char *name, uint32_t n)
{
	uint32_t i;

	policy = vgpu_builtin_policy(name);
	vhost_init(&h, n, 5);
	vgpu_param_defaults(policy->params, params);
	for (i = 0; i < n; i++)
		vgpu_param_defaults(policy->vf_params, rows[i]);
}

static void start(void)
{
	vhost_start(&h, vhost_checked(policy, &h), params, (const int64_t(*)[VGPU_MAX_PARAMS])rows);
}

static void set_vf(uint32_t vf, const char *name, int64_t value)
{
	vhost_param(policy->vf_params, rows[vf], name, value);
}
