/* SPDX-License-Identifier: MIT */
/*
 * What engines share whose GPUs vgpud does not switch: the policy's values, which guests are up,
 * and resets. Engine thread.
 */
#ifndef DAEMON_ENGINE_UNSWITCHED_H
#define DAEMON_ENGINE_UNSWITCHED_H

#include "engine_private.h"
#include "vgpu/reset.h"

struct unswitched {
	struct policy_values values; /* in force */
	vgpu_vf_set up;		     /* VFs whose guest's driver is up */
	uint64_t resets[VGPU_GPU_MAX_VFS];
	/* Until a VF's reset has succeeded the VF counts as scrubbing, whatever its guest does: the
	 * hardware serves it, and nothing but the reset takes away what the last tenant has left.
	 */
	struct vgpu_reset reset[VGPU_GPU_MAX_VFS];
	vgpu_vf_set due;   /* these VFs */
	vgpu_vf_set again; /* those that are to be reset once more after that */
};

/* Sets up U, which was zero or is that of a GPU that was lost: no VF's guest is up, and resets that
 * were due then are due at once. */
void unswitched_restart(struct unswitched *u);

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
/* The reset of a VF has ended, by a driver's event: the VF is another tenant's to have, or the
 * reset is made again later. */
void unswitched_reset_done(struct engine *e, struct unswitched *u, const struct vgpu_event *event);
/* Has the driver reset the VF of REQUEST, until that has succeeded; while it is being reset, once
 * more after that: what its guest did meanwhile must go, too. Sets the request's result and the
 * instant of its event. Returns the result; negative: the GPU is lost. */
int unswitched_reset(struct engine *e, struct unswitched *u, struct engine_request *request);
/* Returns when unswitched_keep() must be called. */
vgpu_nsec unswitched_deadline(const struct unswitched *u);
/* Makes the resets again that are due. Negative: the GPU is lost. */
int unswitched_keep(struct engine *e, struct unswitched *u);

/* Fills in what a snapshot says of the policy and of VFs: state, parameters, resets. */
void unswitched_view(const struct unswitched *u, struct engine_snapshot *s);

#endif
