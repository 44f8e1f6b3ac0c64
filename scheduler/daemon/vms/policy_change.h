/* SPDX-License-Identifier: MIT */
/* Prepares changes of a GPU's policy. Control thread. */
#pragma once

#include "control/change.h"

/* A change_make: gives the GPU the policy call->policy (NULL: the present one) with the parameters
 * in the call's "params". VFs keep the parameters that the new policy also has. */
change_make policy_change_make;
/* A change_make: gives call->vf the parameters in the call's "params". */
change_make vf_change_make;
/* Returns a change_make that gives the GPU the policy and all values of WANT, at once or not at
 * all, where NOW is in force. VFs of VMs keep their values. */
int whole_change(struct call *call, const struct policy_values *want,
		 const struct policy_values *now);
