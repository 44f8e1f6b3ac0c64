/* SPDX-License-Identifier: MIT */
/*
 * Changes of a GPU's policy and of its parameters, one at a time and in their order. Each is made
 * when its turn comes, from what the core has then, so that none undoes another; and it says which
 * policy it was made for. If that was evicted or replaced on the way, the core refuses the change,
 * and it is made again. Control thread.
 */
#ifndef DAEMON_CHANGE_H
#define DAEMON_CHANGE_H

#include "control.h"

/*
 * Queues a call that changes something. MAKE fills in call->request.event, with parameters in the
 * call, from what the GPU has NOW, or is about to have; it may be called several times. 0; 1 if
 * there is nothing to change; -errno with the reason. The end comes as for any request, perhaps
 * before this returns: call_over, with result and reason in call->request.
 */
void change_begin(struct call *call, change_make *make);
/* The same for a VF's parameters, where nobody waits for it: that it was refused is logged. ARGS
 * becomes the call's; NULL is allowed. */
void change_vf(struct gpu *gpu, uint32_t vf, change_make *make, struct json_object *args);
/* The engine has answered a change. */
void change_answered(struct call *call);
/* Goes on with what has waited: often, for a change of policy may have to wait for the last one. */
void change_run(struct gpu *gpu);

/* What the GPU has, or is about to have: new parameters are for that policy. */
const struct policy_values *change_policy_of(const struct gpu *gpu);

/* For a MAKE: the event that gives call->vf call->params, which are for the policy of NOW. */
void change_set_vf(struct call *call, const struct policy_values *now);

#endif
