/* SPDX-License-Identifier: MIT */
/*
 * A second wall around a VF's memory, where the driver has one: from R615 on it limits what the
 * processes of a control group have of a GPU, and refuses more, whoever asks. This process goes
 * into a group of its own, and has it limited by nvidia-smi, which is how the driver wants it done.
 */
#ifndef WORKER_LIMIT_H
#define WORKER_LIMIT_H

#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

#define LIMIT_ROOT "/sys/fs/cgroup"

/* ROOT is where control groups are mounted, OWNER the softgpu whose VF it is, GPU nvidia-smi's
 * number, BYTES all that this process may have of it, its context included. 0, or -errno with a
 * sentence: then there is no limit, and nothing else has changed but the group, if there is one. */
int limit_memory(const char *root, uint32_t gpu, pid_t owner, uint32_t vf, uint64_t bytes,
		 struct vgpu_error *err);

/* The VF's group goes, if there is one, and nobody is in it. */
void limit_forget(const char *root, pid_t owner, uint32_t vf);

#endif
