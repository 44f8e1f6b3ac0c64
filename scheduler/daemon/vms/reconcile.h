/* SPDX-License-Identifier: MIT */
/*
 * Reconciles leases with the VMs that libvirt runs: running VMs keep their VFs, changed claims take
 * effect, and vgpud-libvirt learns which devices to attach and detach. Control thread.
 */
#pragma once

#include "control/call.h"
#include "claim.h"

/* Confirms the leases of a running VM, and makes leases for VFs in its XML that vgpud did not know
 * of. */
void follow_adopt(struct control *control, const struct claim *claim);

/* The method "vm.sync": takes a list of the domains that libvirt ran, and its time. Answers which
 * devices to attach and detach, and which VMs lack a claimed VF. */
int vm_sync_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* The method "vm.extend": reserves the VFs that a running VM claims and lacks. */
int vm_extend_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* The method "vm.explain": answers a VM's claim, and the VFs that it has or would get. */
int vm_explain_begin(struct control *control, struct call *call, struct vgpu_error *err);
