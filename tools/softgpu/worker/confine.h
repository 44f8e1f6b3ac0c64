/* SPDX-License-Identifier: MIT */
/*
 * What a worker gives up before it hears of its guest. The driver and its compiler, which run in
 * it, read what a guest has written: whoever gets hold of them is to find himself with a VF and
 * nothing else.
 */
#ifndef WORKER_CONFINE_H
#define WORKER_CONFINE_H

#include <sys/types.h>

#include "vgpu/types.h"

/* If this process is root's, it becomes UID's and GID's, with no other group but that of FILE,
 * where it needs that to open it (NULL: none), and without capabilities. Before there are threads.
 * 0 or -errno with one sentence. */
int confine_user(uid_t uid, gid_t gid, const char *file, struct vgpu_error *err);

/* From now on no thread starts a program, reaches for another process, makes a socket, changes a
 * priority, or calls what changes a system: it is told EPERM. 0 or -errno with one sentence. */
int confine_calls(struct vgpu_error *err);

#endif
