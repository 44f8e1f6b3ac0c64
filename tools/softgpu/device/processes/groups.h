/* SPDX-License-Identifier: MIT */
/*
 * Control groups of VF processes, where softgpu's own was delegated to it (Delegate= of systemd).
 * Each VF's process is in a group of its own, which limits its memory and how many tasks it has.
 * The device itself moves to a group beside those.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

/* The memory of a VF's process beside its partition: the process itself, and the kernel's share for
 * its socket and its client's mappings. */
#define GROUPS_ALLOWANCE (UINT64_C(64) << 20)

struct groups;

/* ROOT: where control groups are mounted. Moves this process; to be called before it has children.
 * *OUT is NULL if this process's group was not delegated. Returns 0, or -errno with one sentence.
 */
int groups_create(struct groups **out, const char *root, uint32_t n_vfs, struct vgpu_error *err);
/* Removes the groups of VFs; their processes have ended. G may be NULL. */
void groups_destroy(struct groups *g);

/* Puts the process PID of VF into the VF's group. Any thread. Returns 0, or -errno with one
 * sentence. */
int groups_enter(const struct groups *g, uint32_t vf, pid_t pid, struct vgpu_error *err);
/* Limits the memory of VF's processes for a partition of BYTES. As groups_enter(). */
int groups_limit(const struct groups *g, uint32_t vf, uint64_t bytes, struct vgpu_error *err);
