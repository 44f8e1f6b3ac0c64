/* SPDX-License-Identifier: MIT */
/*
 * The libvirts that report what they run: which of them still does. One that was made anew, as in a
 * container that was restarted, has another name, and nobody reports for the old one any more.
 * Control thread.
 */
#ifndef DAEMON_LIBVIRTS_H
#define DAEMON_LIBVIRTS_H

#include "control/state.h"

/* Notes that the libvirt HOST has reported. */
void libvirts_note(struct control *control, const char *host);
/* Returns for how long it has not; counts from now if it never did. */
vgpu_nsec libvirts_silent(struct control *control, const char *host);

#endif
