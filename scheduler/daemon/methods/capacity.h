/* SPDX-License-Identifier: MIT */
/*
 * A GPU's capacity for VMs, for programs that place VMs on hosts: which guaranteed shares the
 * policy would really admit. Sums of rates do not say that: switches take time, and a guarantee has
 * a least size. So the policy is asked (trial.h). Control thread.
 */
#ifndef DAEMON_CAPACITY_H
#define DAEMON_CAPACITY_H

#include "control/call.h"

/* Makes the answer of "gpu.capacity" from the call's snapshot; the caller frees it. It tries
 * the policy some 40 times, which takes 30 ms for 31 VFs: too long for readers. */
struct json_object *capacity_json(struct call *call);

/* Returns the largest share that the policy would guarantee to one more VM now, in per mille; 0: it
 * guarantees none, no VF is free, or the GPU is lost. It tries the policy 11 times if VFs'
 * parameters or the VF that is free have changed since the last call, and up to 31 times if the
 * policy, the configuration or the world-switch time have; else not at all. */
int64_t capacity_largest_free(struct gpu *gpu, const struct engine_snapshot *s);

#endif
