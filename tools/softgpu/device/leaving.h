/* SPDX-License-Identifier: MIT */
/*
 * Processes of the device's that are on their way out. A thread waits for them, so that nobody else
 * does, and kills those whose time is over. Under the device's lock unless noted.
 */
#ifndef SOFTGPU_LEAVING_H
#define SOFTGPU_LEAVING_H

#include <stdbool.h>

#include "vgpu/types.h"

struct leaving;
struct softgpu;

/* Without the lock. 0 or -errno with one sentence. */
int leaving_create(struct leaving **out, struct softgpu *gpu, struct vgpu_error *err);
/* Without the lock: waits for the processes that have a deadline. NULL is allowed. */
void leaving_destroy(struct leaving *l);

/* A process, by its PIDFD, which the list takes over. It is killed at UNTIL; with VGPU_NEVER,
 * never. VF waits for it before it is served again; -1: no VF does. */
void leaving_add(struct leaving *l, int pidfd, int vf, vgpu_nsec until);
/* Whether VF waits for a process. */
bool leaving_holds(const struct leaving *l, int vf);

#endif
