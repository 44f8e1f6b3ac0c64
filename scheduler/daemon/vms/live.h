/* SPDX-License-Identifier: MIT */
/*
 * Live changes: policy and parameters that an operator has set and not saved. They last until vgpud
 * shuts down cleanly, which logs those that are lost. They survive a crash or the watchdog, in a
 * file beside the leases, which a clean shutdown removes. VFs of VMs are not concerned: their
 * parameters are in claims and leases. Control thread.
 */
#ifndef DAEMON_LIVE_H
#define DAEMON_LIVE_H

#include "control/state.h"

/* An operator has changed the policy of a GPU or its parameters; the parameters of a VF. To be
 * called once the change is made. */
void live_changed_policy(struct gpu *gpu);
void live_changed_vf(struct gpu *gpu, uint32_t vf);
/* The VF has the parameters of a VM or of the configuration again. */
void live_forget_vf(struct gpu *gpu, uint32_t vf);

/* Policy and parameters of the GPU are those of the configuration again. */
void live_forget(struct gpu *gpu);

/* Puts the changes that a vgpud kept which did not end cleanly into force again. Failures are
 * logged. */
void live_load(struct control *control);
/* At a clean end: logs what the next vgpud will not have, and removes the file. */
void live_end(struct control *control);

#endif
