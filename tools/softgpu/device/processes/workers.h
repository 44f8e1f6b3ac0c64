/* SPDX-License-Identifier: MIT */
/*
 * The engines that use worker processes: one worker for each VF that has memory executes the VF's
 * packets on a device. softgpu starts the worker, hands its descriptors to the VF's process, which
 * exchanges messages with it, and ends it. A VF without a worker does not run. If a worker dies or
 * does not stop, only its VF is affected: the PF learns that the VF needs a reset, and the reset
 * starts a new worker.
 *
 * Call these functions with the device's lock held, unless noted.
 */
#pragma once

#include "gpu.h"

/* Tests how work on the device can be stopped, and prepares for starting workers. Returns 0 or
 * -errno with one sentence. Called without the lock. */
int workers_create(struct softgpu *gpu, struct vgpu_error *err);
/* Ends all workers. Called without the lock. W may be NULL. */
void workers_destroy(struct workers *w);

/* Returns the pipe with the output of the VF's worker; -1 if there is none. */
int workers_says(const struct softgpu *gpu, int vf);
/* Starts a worker for a VF that has memory now. A VF whose memory lies in host memory gets none
 * before it comes back. */
void workers_begin(struct softgpu *gpu, int vf);
/* Asks the VF's worker, if there is one, to clear its memory and exit; does not wait for that. */
void workers_end(struct softgpu *gpu, int vf);
/* Returns when the last worker that was starting or ending had done so; VGPU_NEVER if one is doing
 * so. Driver locks may be held for long meanwhile, so stopping others may take longer. */
vgpu_nsec workers_quiet_since(struct softgpu *gpu);
/* Tells the VFs' processes the instant that workers_quiet_since() returns. */
void workers_tell(struct softgpu *gpu);
/* Returns how long, ns, a VF that was told to stop at STOPPED may take to stop. */
vgpu_nsec workers_stop_most(struct softgpu *gpu, vgpu_nsec stopped);
/* Kills the VF's worker, so that nothing in its queue runs any more. */
void workers_kill(struct softgpu *gpu, int vf);
/* Replaces the worker of a VF that was reset, unless it has never run anything and lives. */
void workers_restart(struct softgpu *gpu, int vf);
/* Returns whether the VF's worker has ended, without having refused to start. */
bool workers_died(const struct softgpu *gpu, int vf);
/* Fills in the message and the descriptors that tell a VF's process about its worker; the
 * descriptors stay the worker's. Returns false if the VF has no worker. */
bool workers_order(const struct softgpu *gpu, int vf, struct vf_order *order,
		   int fds[VF_ORDER_FDS]);
/* Writes the descriptors by which the VF's worker copies device memory, its socket and its stage,
 * to FDS; they stay the worker's. Returns the worker's number. FDS is not changed if there is no
 * worker. */
uint32_t workers_memory(const struct softgpu *gpu, int vf, int fds[2]);
/* Returns whether the VF's worker still is the one of that number. */
bool workers_is(const struct softgpu *gpu, int vf, uint32_t number);
/* Returns the VF's worker, which is not reaped while the lock is held, and the fences that it has
 * counted; 0: there is none. */
pid_t workers_process(const struct softgpu *gpu, int index, uint64_t *fences);
/* Returns whether the VF's worker is starting: for 10 s at most, and never again once it has said
 * that it is not. */
bool workers_is_starting(struct softgpu *gpu, int index);
/* Does worker_lend() for the VF's worker, if there is one. */
vgpu_nsec workers_lend(struct softgpu *gpu, int index, bool on);
/* Notes that the VF is about to run, so that workers_restart() must replace its worker from now on.
 */
void workers_begin_turn(struct softgpu *gpu, int vf);
/* Forbids the VF's worker to run, because the VF's process states that the VF has stopped. Returns
 * false if the worker runs. */
bool workers_end_turn(struct softgpu *gpu, int vf);

/* The device, and how work on it is stopped, as tested. */
struct workers_tested {
	uint32_t stops;		    /* enum worker_stop: methods that passed */
	uint32_t level;		    /* enum softgpu_preempt */
	vgpu_nsec typical, longest; /* how long stopping took: median and longest */
	vgpu_nsec disturbed;	    /* the longest while another worker started or ended */
	uint32_t leak; /* for SOFT: the part of the GPU that stopped work kept beside other work,
			  millionths */
	bool modules;  /* the device executes MODULE_LOAD and LAUNCH */
	uint64_t free; /* bytes that are free while no worker runs; 0: there is no such limit */
	uint64_t overhead;     /* bytes that a worker may use beside its VF's memory */
	char device[64];       /* name */
	char limit_error[128]; /* why the driver does not also limit VFs' memory; "": it does */
};
const struct workers_tested *workers_tested(const struct softgpu *gpu);

/* selftest.c: does the tests, with workers of its own. Returns 0 or -errno with one sentence. */
int workers_test(const struct softgpu_config *config, struct workers_tested *out,
		 struct vgpu_error *err);
