/* SPDX-License-Identifier: MIT */
/*
 * The policy parameters that VMs with VFs claim, and the part of them that is not in force: a
 * policy may lack a parameter, or accept other values of it. A change of policy that drops claimed
 * parameters is refused unless it is forced; 'vm list' then shows the dropped ones until a policy
 * has them again. Control thread.
 */
#pragma once

#include "control/state.h"

/* Returns an object of the parameters that CLAIMED requests, by name: its profile's, overridden by
 * its own. The caller frees it. */
struct json_object *claimed_params(const struct config *config, const struct claim_vf *claimed);
/* Stores the parameters that CLAIMED and its profile request in the VF's lease. */
void claimed_note(struct gpu *gpu, uint32_t vf, const struct claim_vf *claimed);
/* Returns whether the lease has the same parameters stored. */
bool claimed_is_same(const struct gpu *gpu, uint32_t vf, const struct claim_vf *claimed);
/* Writes the parts of a lease's claim that POLICY lacks, "weight 300, policy fair", to TEXT.
 * Returns whether there are any. */
bool claimed_lost(const struct lease *l, const struct vgpu_policy_ops *policy, char *text,
		  size_t size);
/* Returns NULL if no VM of the GPU would lose a claimed parameter under POLICY that it has now;
 * else a text, which the caller frees, with each VM and its losses. */
char *claimed_refusal(const struct gpu *gpu, const struct vgpu_policy_ops *policy);
/* Compares the claims of one VM, or of all with VFs of the GPU, with the policy in force; logs and
 * records parameters that are no longer in force, or in force again. */
void claimed_look(struct gpu *gpu, uint32_t vf);
void claimed_look_at_all(struct gpu *gpu);
