/* SPDX-License-Identifier: MIT */
/*
 * The slot of a container, SLOT_PATH: an empty directory that every container is started with, and
 * over which the directory of a lease is mounted. Nothing of the container is executed or trusted,
 * because its file system may be forged.
 *
 * A thread that has called these functions is in the container's mount namespace: only a program
 * with one thread may call them, and must load nothing afterwards. Opening a container's paths may
 * block for ever (FUSE), so the caller needs a deadline.
 */
#pragma once

#include "vgpu/types.h"

#define SLOT_PATH "/run/vgpud/gpu"

/*
 * Mounts DIR, a directory of this process's mount namespace, over the slot of the container whose
 * first process is PROCESS, a pidfd. ROOT: path of the container's file system if the container has
 * not made it its root yet; else NULL. LIBRARIES: DIR has libraries, which need glibc. Does nothing
 * if DIR is already mounted there. Returns 0, or -errno with one sentence; -ENOENT: the container
 * was started without a slot; -ELOOP: the path leads through a link; -ENOTSUP: its C library is
 * musl; -ESRCH: the process has ended; -EINVAL: its mount namespace is the caller's.
 */
int slot_fill(int process, const char *root, const char *dir, bool libraries,
	      struct vgpu_error *err);

/* Unmounts DIR from the slot of PROCESS, a pidfd, if DIR was mounted there last; else does nothing.
 * Returns 0, or -errno with the reason. */
int slot_clear(int process, const char *dir, struct vgpu_error *err);
