/* SPDX-License-Identifier: MIT */
/*
 * The privileges that a worker gives up before it reads anything of its guest. The driver and its
 * compiler run in the worker and read what a guest has written: an attacker who takes them over
 * must have no more than that guest's VF.
 */
#ifndef WORKER_CONFINE_H
#define WORKER_CONFINE_H

#include <sys/types.h>

#include "vgpu/types.h"

/* If memory runs out, the kernel kills this process before softgpu. If this process runs as root,
 * it becomes UID and GID, without capabilities and without other groups, except the group of FILE
 * if other users may not open FILE (NULL: no file). Call it before there are threads. 0 or -errno
 * with one sentence. */
int confine_user(uid_t uid, gid_t gid, const char *file, struct vgpu_error *err);

/* From now on, if a thread makes a process, starts a program, accesses another process, makes a
 * socket, changes a priority, or makes a system call that changes the system, the call fails with
 * EPERM. 0 or -errno with one sentence. */
int confine_calls(struct vgpu_error *err);

#endif
