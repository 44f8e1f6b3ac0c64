/* SPDX-License-Identifier: MIT */
/*
 * VMs that run, as libvirt has them: they keep what they have, their changed claims count, and what
 * is differs from what should be is told, so that vgpud-libvirt attaches and detaches. Control
 * thread.
 */
#ifndef DAEMON_RECONCILE_H
#define DAEMON_RECONCILE_H

#include "control.h"
#include "claim.h"

/* A VM that runs keeps what it has, and what vgpud does not know of it, it learns. */
void follow_adopt(struct control *control, const struct claim *claim);

/* The method "vm.sync": what libvirt had running, and when. Answers what is to be attached and
 * detached, and which VMs have slices without a VF. */
int vm_sync_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* The method "vm.extend": VFs for those slices of a VM that runs. */
int vm_extend_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* The method "vm.explain": what a VM claims, and what it has or would get. */
int vm_explain_begin(struct control *control, struct call *call, struct vgpu_error *err);

#endif
