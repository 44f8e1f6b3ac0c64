/* SPDX-License-Identifier: MIT */
/* What the kernel tells of PCI functions: a GPU that comes or goes, a VF whose driver is changed.
 */
#ifndef DAEMON_UEVENTS_H
#define DAEMON_UEVENTS_H

#include "control.h"

/* Listens from now on, on the control thread. Without it nothing is lost but time: engines look
 * after their devices themselves. NULL: cannot, with the reason. */
struct uevents *uevents_start(struct control *control, struct vgpu_error *err);
/* NULL is allowed. */
void uevents_stop(struct uevents *uevents);

#endif
