/* SPDX-License-Identifier: MIT */
/*
 * The life of a VM as libvirt's hook tells it: a VF is reserved before the VM is started, belongs
 * to it while it runs, and is reset and scrubbed when it has gone. Answers come from vgpud's own
 * state and its engines; libvirt is never asked. Control thread.
 */
#ifndef DAEMON_HOOK_H
#define DAEMON_HOOK_H

#include "control.h"

/* The method "hook". An error refuses the operation, where it can be refused. */
int hook_begin(struct control *control, struct call *call, struct vgpu_error *err);

#endif
