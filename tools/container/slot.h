/* SPDX-License-Identifier: MIT */
/*
 * The slot of a container, SLOT_PATH: a directory that it was started with, empty and the same in
 * all of them, over which the directory of a lease is mounted. Nothing of the container's is
 * executed or believed: its file system may be made to deceive whoever mounts there.
 *
 * A thread that has called these is in the container's mount namespace: for programs with one
 * thread, which do nothing but this, and load nothing afterwards. Opening paths of a container may
 * block for ever (FUSE): the caller has a deadline.
 */
#ifndef CONTAINER_SLOT_H
#define CONTAINER_SLOT_H

#include "vgpu/types.h"

#define SLOT_PATH "/run/vgpud/gpu"

/*
 * Mounts DIR, a directory of this process's mount namespace, over the slot of the container whose
 * first process is PROCESS, a pidfd. ROOT: where the container's file system is before it has
 * become its root; NULL: it has. LIBRARIES: what is mounted with it needs glibc. If DIR is there
 * already, nothing is done. 0, or -errno with one sentence; -ENOENT: it was not started with a
 * slot; -ELOOP: the path leads through a link; -ENOTSUP: its C library is musl; -ESRCH: the process
 * has ended; -EINVAL: its mount namespace is the caller's.
 */
int slot_fill(int process, const char *root, const char *dir, bool libraries,
	      struct vgpu_error *err);

/* Takes DIR from the slot, where it is the last that was mounted there; else nothing is done, and
 * it is 0, too. */
int slot_clear(int process, const char *dir, struct vgpu_error *err);

#endif
