/* SPDX-License-Identifier: MIT */
/*
 * Live changes: policy and parameters that an operator has set and not saved. They last until vgpud
 * shuts down cleanly, which logs those that are lost. They survive a crash or the watchdog, in a
 * file beside the leases, which a clean shutdown removes. VFs of VMs are not included: their
 * parameters are in claims and leases. Control thread.
 */
#pragma once

#include "control/state.h"

/* Records that an operator has changed a GPU's policy or its parameters, or the parameters of a VF.
 * To be called after the change. */
void live_changed_policy(struct gpu *gpu);
void live_changed_vf(struct gpu *gpu, uint32_t vf);
/* The VF has the parameters of a VM or of the configuration again. */
void live_forget_vf(struct gpu *gpu, uint32_t vf);

/* Policy and parameters of the GPU are those of the configuration again. */
void live_forget(struct gpu *gpu);

/* Applies the changes that an earlier vgpud kept because it did not shut down cleanly. Failures are
 * logged. */
void live_load(struct control *control);
/* At a clean shutdown: logs the changes that the next vgpud will not have, and removes the file. */
void live_end(struct control *control);
