/* SPDX-License-Identifier: MIT */
/*
 * The link by which vgpud-qemu finds the door of a VM's gated GPU, when libvirt starts it and it
 * knows only the VM's UUID. The link gives no access: the door recognises the VM by its process.
 * Control thread.
 */
#pragma once

#include "control/state.h"

/* Links the door for the VM's lease, if its GPU is gated; failures are logged, and vgpud-qemu then
 * refuses to start. */
void vm_door_link(struct gpu *gpu, uint32_t vf);
/* Removes the link again. */
void vm_door_unlink(struct gpu *gpu, uint32_t vf);
