/* SPDX-License-Identifier: MIT */
/*
 * The engine as processes: one worker for each VF that has memory, which executes its packets on a
 * device. The VF's process speaks to it; the device starts it, hands its descriptors over, and ends
 * it. Who has none is not run. A worker that dies, or does not stop, costs its VF alone: it is
 * reported as one that needs a reset, and gets a fresh worker by that.
 *
 * Under the lock.
 */
#ifndef SOFTGPU_WORKERS_H
#define SOFTGPU_WORKERS_H

#include "gpu.h"

/* Proves how the device's work can be stopped, and gets ready to start workers. 0 or -errno with
 * one sentence. */
int workers_create(struct softgpu *gpu, struct vgpu_error *err);
/* Ends all of them. Called without the lock. NULL is allowed. */
void workers_destroy(struct workers *w);

/* The VF has memory, and a worker for it; or no longer. */
void workers_begin(struct softgpu *gpu, int vf);
void workers_end(struct softgpu *gpu, int vf);
/* What the worker has put into its queue is not to run any more: it is killed. */
void workers_kill(struct softgpu *gpu, int vf);
/* The VF begins anew: so does its worker, if it may have done anything. */
void workers_restart(struct softgpu *gpu, int vf);
/* What the VF's process is told of its worker; the descriptors stay the worker's. False: it has
 * none. */
bool workers_order(const struct softgpu *gpu, int vf, struct vf_order *order,
		   int fds[VF_ORDER_FDS]);
/* The VF is about to run: its worker is no longer as new. */
void workers_used(struct softgpu *gpu, int vf);

/* How work is stopped, as proved. */
struct workers_proof {
	uint32_t stops; /* enum worker_stop */
	uint32_t level; /* enum softgpu_preempt */
	vgpu_nsec typical, longest;
	bool modules;	   /* it takes MODULE_LOAD and LAUNCH */
	uint64_t free;	   /* bytes of the device, when no worker runs; 0: no such limit */
	uint64_t overhead; /* what a worker takes beside its VF's memory */
	char device[64];
	char wall[128]; /* why the driver does not limit VFs' memory as well; "": it does */
};
const struct workers_proof *workers_proof(const struct softgpu *gpu);

/* selftest.c: finds out, with two workers of its own. 0 or -errno with one sentence. */
int workers_prove(const struct softgpu_config *config, struct workers_proof *out,
		  struct vgpu_error *err);

#endif
