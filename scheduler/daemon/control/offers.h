/* SPDX-License-Identifier: MIT */
/* What containers may ask for is a file of CDI's, which vgpud does not write itself. */
#ifndef DAEMON_OFFERS_H
#define DAEMON_OFFERS_H

#include "state.h"

/*
 * Says that the file may be out of date, by a file beside the control socket for which
 * vgpud-cdi.path waits: its names are those of GPUs and profiles. What writes it removes that file
 * first, so no change is lost. Where it cannot be made, it is logged. Control thread.
 */
void offers_changed(const struct control *control);

#endif
