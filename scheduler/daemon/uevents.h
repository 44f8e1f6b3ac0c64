/* SPDX-License-Identifier: MIT */
/* Watches the kernel's uevents of PCI functions: GPUs that come or go, VFs whose driver changes. */
#pragma once

#include "control/state.h"

/* Starts to watch, on the control thread. Returns NULL with the reason in ERR if it cannot; vgpud
 * then finds a lost GPU later, when its engine looks for it. */
struct uevents *uevents_start(struct control *control, struct vgpu_error *err);
/* NULL is allowed. */
void uevents_stop(struct uevents *uevents);
