/* SPDX-License-Identifier: MIT */
/* Containers may request the devices in a CDI file, which vgpud does not write itself. */
#pragma once

#include "state.h"

/*
 * Marks the CDI file as out of date, because the names of GPUs or profiles have changed: creates a
 * file beside the control socket for which vgpud-cdi.path waits. The writer of the CDI file removes
 * the mark first, so that no change is lost. A failure is logged. Control thread.
 */
void offers_changed(const struct control *control);
