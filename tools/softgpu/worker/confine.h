/* SPDX-License-Identifier: MIT */
/*
 * The privileges that a worker gives up before it reads anything of its guest. The driver and its
 * compiler run in the worker and read what a guest has written: an attacker who takes them over
 * must have no more than that guest's VF.
 */
#ifndef WORKER_CONFINE_H
#define WORKER_CONFINE_H

#include <stdbool.h>
#include <sys/types.h>

#include "vgpu/types.h"

/* The priority that a thread may give itself, and no other: whoever computes on the host's CPUs for
 * a guest for long, outside of its slices, steps back behind ordinary programs. */
#define CONFINE_NICE 10

/* If memory runs out, the kernel kills this process before softgpu. If this process runs as root,
 * it becomes UID and GID, without capabilities and without other groups, except the group of FILE
 * if other users may not open FILE (NULL: no file). Call it before there are threads. 0 or -errno
 * with one sentence. */
int confine_user(uid_t uid, gid_t gid, const char *file, struct vgpu_error *err);

/* From now on this thread, and threads that it makes, cannot open files, and cannot reach TCP
 * ports, and abstract sockets and processes other than its own, as far as the kernel's Landlock
 * goes; without it nothing changes. 0 or -errno with one sentence. */
int confine_files(struct vgpu_error *err);

/* From now on, if a thread makes a process, starts a program, accesses another process, makes a
 * socket, changes a priority other than its
 * own to CONFINE_NICE, or makes a system call that changes the system, the call fails with
 * EPERM; without THREADS, if one makes a thread, too. 0 or -errno with one sentence. */
int confine_calls(bool threads, struct vgpu_error *err);

#endif
