/* SPDX-License-Identifier: MIT */
/*
 * VFs whose tenant is gone and that no other tenant may get before they are reset. The engine
 * resets them, as often as it takes, once it has heard of it; until then, and over a restart of
 * vgpud or the loss of a GPU, the control thread knows: the file of leases says which VFs these are
 * (lease.h). Control thread.
 */
#ifndef DAEMON_CLEARING_H
#define DAEMON_CLEARING_H

#include "control/state.h"

/* The VF's tenant is gone: has the VF reset, and its memory cleared. The caller saves the leases.
 */
void clearing_begin(struct gpu *gpu, uint32_t vf);
/* Whether the engine does not know yet that the VF must be reset: what a snapshot says of it does
 * not count. */
bool clearing_waits(const struct gpu *gpu, uint32_t vf);
/* The GPU was lost and is back, with an engine that knows of no reset. */
void clearing_forgotten(struct gpu *gpu);
/* Every second: tells the engine again what it could not be told. */
void clearing_second(struct gpu *gpu);
/* To be called for each of the engine's rare records: one may end it. Saves the leases then. */
void clearing_note(struct gpu *gpu, const struct vgpu_record *r);

#endif
