/* SPDX-License-Identifier: MIT */
/*
 * Processes of the device that have been asked to exit. A thread waits for them, so that no other
 * thread does, and kills those that exceed their deadline. Call these functions with the device's
 * lock held, unless noted.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "vgpu/types.h"

struct leaving;
struct softgpu;

/* Starts the thread. Called without the lock. Returns 0 or -errno with one sentence. */
int leaving_create(struct leaving **out, struct softgpu *gpu, struct vgpu_error *err);
/* Waits for the processes that have a deadline, and ends the thread. Called without the lock. L may
 * be NULL. */
void leaving_destroy(struct leaving *l);

/* Adds a process. PIDFD is taken over. UNTIL: when to kill the process; VGPU_NEVER: never. VF is
 * not served before the process has ended. */
void leaving_add(struct leaving *l, int pidfd, int vf, vgpu_nsec until);
/* Adds the worker PID of VF, which clears its memory until UNTIL at most. No VF depends on it. One
 * that computes meanwhile has been taken over: it is killed, and so is the process that it worked
 * for, if that is still VF's, which has no other one for some time. */
void leaving_add_worker(struct leaving *l, int pidfd, pid_t pid, int vf, vgpu_nsec until);
/* Returns whether a worker of this VF takes long to exit. */
bool leaving_lingers(const struct leaving *l, int vf);
/* Returns whether a process with this VF is in the list. */
bool leaving_holds(const struct leaving *l, int vf);
/* Returns when the last process on which no VF depends had ended, or was found to hang; VGPU_NEVER
 * if one is about to end. */
vgpu_nsec leaving_quiet_since(const struct leaving *l);
