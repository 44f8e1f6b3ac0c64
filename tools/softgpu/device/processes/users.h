/* SPDX-License-Identifier: MIT */
/*
 * Users of VF processes and workers. Each process has a user of its own, out of a range of numbers
 * that have no names, so that what the kernel limits or allows to a user is one VF's: descriptors
 * in flight, signals, files in /proc and in folders that anybody may write. A number is given again
 * only when the others have been, and never while a process of a VF has it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct softgpu;

/* What a user is for. */
enum users_of { USERS_PROCESS = 0, USERS_WORKER, USERS_KINDS };

/* Returns the user of the VF's next process or worker, and the group with it. Call it with the
 * device's lock. */
uid_t users_next(struct softgpu *gpu, int vf, enum users_of of, gid_t *group);

/* Returns whether this process can give others the N users from FIRST on, and groups of the same
 * numbers: a container may have fewer. Any thread. */
bool users_are_mapped(uid_t first, uint32_t n);
