/* SPDX-License-Identifier: MIT */
/*
 * Privileges that a worker gives up before it reads anything of its guest. The GPU's driver and its
 * compiler run in the worker, and read what the guest has written. A guest that takes them over
 * must be able to reach nothing but its own VF.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

/* The only priority that a thread may give itself. A thread that computes on the host's CPUs for
 * long, outside the slices of its guest, takes it so that ordinary programs run first. */
#define CONFINE_NICE 10

/* If memory runs out, the kernel kills this process before softgpu. If this process runs as root,
 * it becomes UID and GID, without capabilities and without other groups, except the group of FILE
 * if other users may not open FILE (NULL: no file). Call it before there are threads. Returns 0 or
 * -errno with one sentence. */
int confine_user(uid_t uid, gid_t gid, const char *file, struct vgpu_error *err);

/* From now on this thread, and threads that it makes, cannot open files, and cannot reach TCP
 * ports, and abstract sockets and processes other than its own, as far as the kernel's Landlock
 * goes; without it nothing changes. Returns 0 or -errno with one sentence. */
int confine_files(struct vgpu_error *err);

/* From now on this process has at most BYTES of memory of its own more than it has now; beyond
 * that it gets none. What it shares with others is not counted. Returns 0 or -errno with one
 * sentence. */
int confine_memory(uint64_t bytes, struct vgpu_error *err);

/* From now on, calls fail with EPERM that make a process, a socket or, without THREADS, a thread;
 * that start a program, access another process, or change the system; and that change a priority,
 * except a thread's own to CONFINE_NICE; and without THREADS also those
 * that make memory which could be shared, and is not counted by confine_memory(). Returns 0 or
 * -errno with one sentence. */
int confine_calls(bool threads, struct vgpu_error *err);
