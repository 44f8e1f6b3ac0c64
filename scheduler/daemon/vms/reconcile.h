/* SPDX-License-Identifier: MIT */
/*
 * Brings leases in line with the VMs that libvirt runs: running VMs keep their VFs, changed claims
 * take effect, and vgpud-libvirt is told which devices to attach and detach. Control thread.
 */
#ifndef DAEMON_RECONCILE_H
#define DAEMON_RECONCILE_H

#include "control/call.h"
#include "claim.h"

/* Confirms the leases of a running VM, and makes leases for VFs that its XML names and vgpud did
 * not know of. */
void follow_adopt(struct control *control, const struct claim *claim);

/* The method "vm.sync": takes which domains libvirt ran, and when. Answers which devices to attach
 * and detach, and which VMs lack a VF that they claim. */
int vm_sync_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* The method "vm.extend": reserves the VFs that a running VM claims and lacks. */
int vm_extend_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* The method "vm.explain": answers what a VM claims, and what it has or would get. */
int vm_explain_begin(struct control *control, struct call *call, struct vgpu_error *err);

#endif
