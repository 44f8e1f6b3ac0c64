/* SPDX-License-Identifier: MIT */
#ifndef VGPUCTL_EVENTS_H
#define VGPUCTL_EVENTS_H

#include "session.h"

/* Prints the events of all GPUs in the order of time; with --follow, further ones as they happen.
 * Returns an exit code. */
int events(struct session *s);

#endif
