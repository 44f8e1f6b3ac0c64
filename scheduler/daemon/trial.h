/* SPDX-License-Identifier: MIT */
/* Asks a core or a governor of its own, beside the GPUs, whether a policy takes parameters. Any
 * thread. */
#ifndef DAEMON_TRIAL_H
#define DAEMON_TRIAL_H

#include "config.h"

/*
 * Whether a GPU that is set up as GPU says could begin under VALUES: the same core and policy, or
 * the same governor and policy, decide as in an engine, with the world-switch time that they assume
 * before one was measured. CAPS say which of them: engine_policy() has those of a GPU. NULL: the
 * GPU was not opened, so that its firmware may schedule or not; then only what neither would take
 * is refused. Changes nothing. Returns 0; -EINVAL or -EOPNOTSUPP with the reason in ERR, and in *VF
 * which VF is refused (-1: the policy itself, or all of it together); -E2BIG: the policy needs too
 * much memory; -ENOMEM.
 */
int trial(const struct gpu_config *gpu, const struct vgpu_driver_caps *caps,
	  const struct policy_values *values, int32_t *vf, struct vgpu_error *err);

#endif
