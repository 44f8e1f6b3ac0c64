/* SPDX-License-Identifier: MIT */
/*
 * What VMs that have VFs claim of their policies, and what of it is not in force: a policy may lack
 * a parameter, or take other values of it. A change of policy that drops claimed parameters is
 * refused unless it is forced; what is then not in force is shown with the VM until a policy has it
 * again. Control thread.
 */
#ifndef DAEMON_CLAIMED_H
#define DAEMON_CLAIMED_H

#include "control/state.h"

/* Makes an object of what CLAIMED asks of the policy, by name: its profile's parameters, overridden
 * by its own. The caller frees it. */
struct json_object *claimed_params(const struct config *config, const struct claim_vf *claimed);
/* Notes in the VF's lease what CLAIMED, and its profile, ask of the policy. */
void claimed_note(struct gpu *gpu, uint32_t vf, const struct claim_vf *claimed);
/* Whether that is what was noted. */
bool claimed_is_same(const struct gpu *gpu, uint32_t vf, const struct claim_vf *claimed);
/* Writes the parts of a lease's claim that POLICY lacks, "weight 300, policy fair", to TEXT.
 * Returns whether there is anything. */
bool claimed_lost(const struct lease *l, const struct vgpu_policy_ops *policy, char *text,
		  size_t size);
/* Returns NULL if no VM of the GPU would lose a claimed parameter that it has now under POLICY;
 * else a text, the caller's, with each VM and what it would lose. */
char *claimed_refusal(const struct gpu *gpu, const struct vgpu_policy_ops *policy);
/* Compares the claims of one VM, or of all that have VFs of the GPU, with the policy in force; logs
 * what is not in force any more, or again, and makes events of it. */
void claimed_look(struct gpu *gpu, uint32_t vf);
void claimed_look_at_all(struct gpu *gpu);

#endif
