/* SPDX-License-Identifier: MIT */
/*
 * What a GPU has to offer to VMs, for those who place VMs on hosts: which guaranteed shares the
 * policy would really admit. Sums of rates do not say that: switches take time, and a guarantee has
 * a least size. So the policy is asked (trial.h). Control thread.
 */
#ifndef DAEMON_CAPACITY_H
#define DAEMON_CAPACITY_H

#include "call.h"

/* Makes the answer of "gpu.capacity" from the call's snapshot; the caller frees it. It tries
 * the policy some 40 times, which takes 30 ms for 31 VFs: too long for readers. */
struct json_object *capacity_json(struct call *call);

#endif
