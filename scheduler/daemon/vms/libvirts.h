/* SPDX-License-Identifier: MIT */
/*
 * Which libvirts still report the VMs that they run. A recreated libvirt, as in a restarted
 * container, has another name, and the old name never reports again. Control thread.
 */
#ifndef DAEMON_LIBVIRTS_H
#define DAEMON_LIBVIRTS_H

#include "control/state.h"

/* Notes that the libvirt HOST has reported. */
void libvirts_note(struct control *control, const char *host);
/* Returns for how long it has not; counts from now if it never did. */
vgpu_nsec libvirts_silent(struct control *control, const char *host);

#endif
