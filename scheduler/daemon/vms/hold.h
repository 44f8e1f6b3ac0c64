/* SPDX-License-Identifier: MIT */
/*
 * VFs of VMs that are being migrated or restored and have not resumed yet. Until a VM resumes, its
 * VF gets no turn, because the guest does not run yet. Where firmware schedules, the kernel's
 * driver keeps the VF stopped. vgpud-libvirt sees the VM resume. If it does not within incoming_s,
 * the VF is scheduled anyway: without a guest it has no work, and a guest that waits for it would
 * be dead. Control thread.
 */
#pragma once

#include "control/state.h"

/* Keeps the VF of an INCOMING lease off the engine. */
void hold_begin(struct gpu *gpu, uint32_t vf);
/* Ends the hold; the VM has not come. */
void hold_drop(struct gpu *gpu, uint32_t vf);
/* The VM has resumed: its lease becomes RUNNING, its VF gets turns, and takes over its debt from
 * the other host. */
void hold_resume(struct gpu *gpu, uint32_t vf);
