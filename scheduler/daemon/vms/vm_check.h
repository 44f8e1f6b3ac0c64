/* SPDX-License-Identifier: MIT */
/* Checks a claim before it is written. Control thread. */
#pragma once

#include "control/call.h"

/* The method "vm.check": whether the GPUs' policies accept a changed claim of a VM. Changes
 * nothing. */
int vm_check_begin(struct control *control, struct call *call, struct vgpu_error *err);
