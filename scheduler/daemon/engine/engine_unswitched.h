/* SPDX-License-Identifier: MIT */
/*
 * Shared by the engines of GPUs that vgpud does not switch: the policy's values, which guests are
 * up, and resets. Engine thread.
 */
#pragma once

#include "engine_private.h"
#include "vgpu/reset.h"

struct unswitched {
	struct policy_values values; /* in force */
	vgpu_vf_set up;		     /* VFs whose guest driver is up */
	uint64_t resets[VGPU_GPU_MAX_VFS];
	/* A VF counts as scrubbing until its reset has succeeded, whatever its guest does: the
	 * hardware serves the guest, and only the reset removes the last tenant's data. */
	struct vgpu_reset reset[VGPU_GPU_MAX_VFS];
	vgpu_vf_set due;   /* VFs to be reset */
	vgpu_vf_set again; /* VFs to be reset once more after that */
};

/* Initialises U, which was zero or belongs to a GPU that was lost: no VF's guest is up, and resets
 * that were due then are due at once. */
void unswitched_restart(struct unswitched *u);

/* Returns the values that EVENT, of type VGPU_EV_POLICY, requests for N VFs. */
struct policy_values unswitched_policy(const struct vgpu_event *event, uint32_t n);
/* Computes NEXT from the values in force and REQUEST's new parameters of the policy or of a VF.
 * Returns false, with REQUEST's result set: they are of another policy. */
bool unswitched_change(const struct unswitched *u, struct engine_request *request,
		       struct policy_values *next);
/* Puts NEXT into force; records a change of policy. */
void unswitched_take(struct engine *e, struct unswitched *u, const struct policy_values *next);

/* Records whether the driver of VF's guest is up. */
void unswitched_set_up(struct engine *e, struct unswitched *u, uint32_t vf, bool up);
/* A driver's event reports the end of a VF's reset: frees the VF for another tenant, or schedules
 * another reset. */
void unswitched_reset_done(struct engine *e, struct unswitched *u, const struct vgpu_event *event);
/* Has the driver reset the VF of REQUEST, until that has succeeded; during a reset, once more after
 * it, to remove what the guest did meanwhile. Sets the request's result and the instant of its
 * event. Returns the result; negative: the GPU is lost. */
int unswitched_reset(struct engine *e, struct unswitched *u, struct engine_request *request);
/* Returns when unswitched_keep() must be called. */
vgpu_nsec unswitched_deadline(const struct unswitched *u);
/* Repeats the resets that are due. Negative: the GPU is lost. */
int unswitched_keep(struct engine *e, struct unswitched *u);

/* Fills in a snapshot's policy and the state, parameters and resets of VFs. */
void unswitched_view(const struct unswitched *u, struct engine_snapshot *s);
