/* SPDX-License-Identifier: MIT */
/*
 * VFs of VMs that have not resumed yet: they come from another host or from a file. Until a VM
 * resumes, its VF gets no turn: the guest does not run, and what the VF would do is not the guest's
 * yet. Where firmware schedules, the kernel's driver keeps the VF stopped. vgpud-libvirt sees the
 * VM resume. If it does not within incoming_s, the VF gets turns all the same: a VF without a guest
 * has no work, and one whose guest waits for it is dead. Control thread.
 */
#ifndef DAEMON_HOLD_H
#define DAEMON_HOLD_H

#include "control/state.h"

/* Keeps the VF, whose lease is INCOMING, off the engine. */
void hold_begin(struct gpu *gpu, uint32_t vf);
/* Ends that; the VM has not come. */
void hold_drop(struct gpu *gpu, uint32_t vf);
/* The VM has resumed: its lease is RUNNING, its VF gets turns, and owes what it owed at the other
 * host. */
void hold_resume(struct gpu *gpu, uint32_t vf);

#endif
