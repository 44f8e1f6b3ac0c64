/* SPDX-License-Identifier: MIT */
/*
 * A memory limit by the driver, as a second protection of a VF's memory: from R615 on, the driver
 * limits the GPU memory of all processes in a control group. This process enters a control group of
 * its own and has nvidia-smi limit the group: the driver offers no other interface for this.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

#define LIMIT_ROOT "/sys/fs/cgroup"

/* Writes the path of this process's control group, from the root: "/system.slice/...". Returns 0,
 * or -errno with one sentence. */
int limit_own_group(char *path, size_t size, struct vgpu_error *err);

/* ROOT: where control groups are mounted; OWNER: the process of softgpu; VF: its VF's number; GPU:
 * nvidia-smi's number; BYTES: the most GPU memory for this process, its context included. Returns
 * 0, or -errno with one sentence: then there is no limit. The control group may exist all the same,
 * and this process may be in it. */
int limit_memory(const char *root, uint32_t gpu, pid_t owner, uint32_t vf, uint64_t bytes,
		 struct vgpu_error *err);

/* Removes the VF's control group, if it exists and no process is in it. */
void limit_forget(const char *root, pid_t owner, uint32_t vf);
