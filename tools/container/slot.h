/* SPDX-License-Identifier: MIT */
/*
 * The slot of a container, SLOT_PATH: a directory that every container is started with, empty and
 * the same in all, over which the directory of a lease is mounted. Nothing of the container is
 * executed or trusted: its file system may be made to deceive.
 *
 * A thread that has called these functions is in the container's mount namespace: they are for
 * programs with one thread that do nothing else, and load nothing afterwards. Opening paths of a
 * container may block for ever (FUSE): the caller needs a deadline.
 */
#pragma once

#include "vgpu/types.h"

#define SLOT_PATH "/run/vgpud/gpu"

/*
 * Mounts DIR, a directory of this process's mount namespace, over the slot of the container whose
 * first process is PROCESS, a pidfd. ROOT: the container's file system, before the container has
 * made it its root; NULL: it has. LIBRARIES: what is mounted with it needs glibc. Does nothing if
 * DIR is mounted there already. Returns 0, or -errno with one sentence; -ENOENT: the container was
 * not started with a slot; -ELOOP: the path leads through a link; -ENOTSUP: its C library is musl;
 * -ESRCH: the process has ended; -EINVAL: its mount namespace is the caller's.
 */
int slot_fill(int process, const char *root, const char *dir, bool libraries,
	      struct vgpu_error *err);

/* Unmounts DIR from the slot, if it is what was mounted there last. Returns 0, also if it is not,
 * or -errno with the reason. */
int slot_clear(int process, const char *dir, struct vgpu_error *err);
