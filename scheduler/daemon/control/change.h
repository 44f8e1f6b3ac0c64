/* SPDX-License-Identifier: MIT */
/*
 * Changes of a GPU's policy and parameters, one at a time and in order. A change is prepared when
 * its turn comes, from the core's values at that time, so that no change undoes another. It names
 * the policy that it was prepared for: if that policy was evicted or replaced meanwhile, the core
 * refuses the change, and the control thread prepares it again. Control thread.
 */
#pragma once

#include "call.h"

/*
 * Queues a change. MAKE fills in call->request.event, with parameters in the call, from NOW: the
 * values in force or about to be. It may be called several times, and returns 0; 1 if there is
 * nothing to change; -errno with the reason in ERR. The change ends like any request, perhaps
 * before this returns: with call_over, result and reason in call->request.
 */
void change_begin(struct call *call, change_make *make);
/* Queues a client's change. Returns 0; -EAGAIN if too many changes of the GPU are under way. */
int change_request(struct call *call, change_make *make, struct vgpu_error *err);
/*
 * From now on the changes of RELOAD precede all others, which wait until change_reloaded(), but for
 * two seconds at most: a reload gives all GPUs their new values or restores all former ones, and
 * must not overwrite a change that is answered meanwhile.
 */
void change_reload(struct call *reload);
/* The reload has ended, and its values are adopted. */
void change_reloaded(struct control *control);
/* Queues a change of a VF's parameters that no client waits for; a refusal is logged. */
void change_vf(struct gpu *gpu, uint32_t vf, change_make *make);
/* The end of such a change: logs a refusal, and drops the call. */
void change_told(struct call *call);
/* To be called when the engine has answered a change. */
void change_answered(struct call *call);
/* Sends the next change if it need not wait any longer. To be called often. */
void change_run(struct gpu *gpu);

/* Returns the policy and values that are in force or will be next; new parameters are for that
 * policy. Valid until the next call. */
const struct policy_values *change_policy_of(const struct gpu *gpu);

/* For a MAKE: fills in the event that gives call->vf the parameters call->params, for the policy of
 * NOW. */
void change_set_vf(struct call *call, const struct policy_values *now);
