/* SPDX-License-Identifier: MIT */
/*
 * VFs whose tenant is gone, and that must be reset before another tenant gets them. Once the engine
 * has received the request, it resets them, and retries until it succeeds; until then, and across a
 * restart of vgpud or the loss of a GPU, the control thread keeps them in the file of leases
 * (lease.h). Control thread.
 */
#pragma once

#include "control/state.h"

/* The VF's tenant is gone: has the VF reset, and its memory cleared. The caller saves the
 * leases. */
void clearing_begin(struct gpu *gpu, uint32_t vf);
/* Returns whether the engine has not received the reset request yet: the VF's state in a snapshot
 * then does not count. */
bool clearing_waits(const struct gpu *gpu, uint32_t vf);
/* The GPU was lost and has returned, with an engine that knows of no reset. */
void clearing_forgotten(struct gpu *gpu);
/* Every second: repeats the requests that the engine could not receive. */
void clearing_second(struct gpu *gpu);
/* To be called for each of the engine's rare records, which may complete a reset. Saves the leases
 * then. */
void clearing_note(struct gpu *gpu, const struct vgpu_record *r);
