/* SPDX-License-Identifier: MIT */
/*
 * What engines share whose GPUs vgpud does not switch: the policy's values, which guests are up,
 * and resets. Engine thread.
 */
#ifndef DAEMON_ENGINE_UNSWITCHED_H
#define DAEMON_ENGINE_UNSWITCHED_H

#include "engine_private.h"

struct unswitched {
	struct policy_values values; /* in force */
	uint32_t up;		     /* bitmap of VFs whose guest's driver is up */
	uint64_t resets[VGPU_GPU_MAX_VFS];
};

/* Returns the values that EVENT, of type VGPU_EV_POLICY, asks for, for N VFs. */
struct policy_values unswitched_policy(const struct vgpu_event *event, uint32_t n);
/* Makes NEXT of the values in force and of new parameters of the policy or of a VF, which REQUEST
 * has. Returns false, with its result: they are of another policy. */
bool unswitched_change(const struct unswitched *u, struct engine_request *request,
		       struct policy_values *next);
/* NEXT is in force from now on; another policy is recorded. */
void unswitched_take(struct engine *e, struct unswitched *u, const struct policy_values *next);

/* Records that the driver of VF's guest is up, or no more. */
void unswitched_set_up(struct engine *e, struct unswitched *u, uint32_t vf, bool up);
/* Records, for a driver's event, that the reset of a VF has ended. */
void unswitched_reset_done(struct engine *e, const struct vgpu_event *event);
/* Has the driver reset the VF of REQUEST. Returns the driver's result, which is the request's. */
int unswitched_reset(struct engine *e, struct unswitched *u, struct engine_request *request);

/* Fills in what a snapshot says of the policy and of VFs: state, parameters, resets. */
void unswitched_view(const struct unswitched *u, struct engine_snapshot *s);

#endif
