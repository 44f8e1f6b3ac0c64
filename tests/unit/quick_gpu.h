/* SPDX-License-Identifier: MIT */
/*
 * The null driver's GPU, steered by a test while an engine has it: for tests of what stands between
 * the core and a driver. It answers every command at once, or when the test lets it. Its VFs have
 * saved contexts and drivers that are up, so that they are scheduled as soon as they have work. One
 * at a time.
 */
#ifndef TESTS_QUICK_GPU_H
#define TESTS_QUICK_GPU_H

#include "engine.h"

#define QUICK_VFS 3u
#define QUICK_MIB (UINT64_C(1) << 20)

extern struct vgpu_driver_ops quick_driver; /* after quick_reset */

/* Nobody has work, everything is answered; without host memory. */
void quick_reset(void);
/* Host memory, and a partition that begins there. */
void quick_host(uint64_t bytes, uint32_t out);

/* Any thread, while an engine has it: */

/* VF has work, or none. */
void quick_busy(uint32_t vf, bool busy);
/* Commands to be idle are answered from now on, or not. */
void quick_stops(bool yes);
/* Memory that is being cleared becomes clear, or not. */
void quick_clears(bool yes);
/* The GPU is there, or gone. */
void quick_present(bool yes);
/* The engine thread stands still in the driver; returns when it does. Then it goes on. */
void quick_block(void);
void quick_unblock(void);
/* At each command to be idle SEE is called, on the engine thread. */
void quick_watch(void (*see)(void));

/* A configuration for it, with POLICY and its defaults. */
void quick_config(struct engine_config *out, const struct vgpu_policy_ops *policy);

#endif
