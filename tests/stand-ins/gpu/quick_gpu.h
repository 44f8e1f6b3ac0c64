/* SPDX-License-Identifier: MIT */
/*
 * The null driver's GPU, steered by a test while an engine runs it: for tests of the code between
 * the core and a driver. It answers each command at once, or when the test lets it. Its VFs have
 * saved contexts, and their guest drivers are up, so that each VF is scheduled as soon as it has
 * work. There is one such GPU at a time.
 */
#pragma once

#include "engine/engine.h"

#define QUICK_VFS 3u
#define QUICK_MIB (UINT64_C(1) << 20)

extern struct vgpu_driver_ops quick_driver; /* valid after quick_reset() */

/* Resets the GPU: no VF has work, every command is answered, there is no host memory. */
void quick_reset(void);
/* Sets the size of host memory. The partitions of VF OUT and above begin there. */
void quick_host(uint64_t bytes, uint32_t out);

/* Any thread may call the following while an engine runs the GPU. */

/* Sets whether the VF has work. */
void quick_busy(uint32_t vf, bool busy);
/* The GPU reports a violation of the memory by the VF. */
void quick_violates(uint32_t vf, enum vgpu_violation kind);
/* Sets whether commands to be idle are answered from now on. */
void quick_stops(bool yes);
/* Sets whether the GPU is present. */
void quick_present(bool yes);
/* quick_block() makes the engine thread wait inside the driver, and returns when it waits;
 * quick_unblock() lets it continue. */
void quick_block(void);
void quick_unblock(void);
/* Calls SEE on the engine thread at each command to be idle. */
void quick_watch(void (*see)(void));

/* Makes a configuration for this GPU, with POLICY and its defaults. */
void quick_config(struct engine_config *out, const struct vgpu_policy_ops *policy);
