/* SPDX-License-Identifier: MIT */
/* Asks a core of its own, beside the GPUs, whether a policy takes parameters. Any thread. */
#ifndef DAEMON_TRIAL_H
#define DAEMON_TRIAL_H

#include "config.h"

/*
 * Whether a GPU that is set up as GPU says could begin under VALUES: the same core and policy
 * decide as in an engine, with the world-switch time that they assume before one was measured.
 * Changes nothing. Returns 0; -EINVAL with the reason in ERR, and in *VF which VF is refused (-1:
 * the policy itself); -E2BIG: the policy needs too much memory; -ENOMEM.
 */
int trial(const struct gpu_config *gpu, const struct policy_values *values, int32_t *vf,
	  struct vgpu_error *err);

#endif
