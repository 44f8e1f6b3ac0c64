/* SPDX-License-Identifier: MIT */
/*
 * Follows a VM through the calls of libvirt's hook: reserves a VF before the VM starts, keeps it
 * for the VM while it runs, and resets and scrubs it at the end. Never calls libvirt, which waits
 * for the answer. Control thread.
 */
#pragma once

#include "control/call.h"

/* The method "hook". An error refuses the operation, if libvirt lets hooks refuse it. */
int hook_begin(struct control *control, struct call *call, struct vgpu_error *err);
