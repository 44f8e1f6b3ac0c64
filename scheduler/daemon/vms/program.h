/* SPDX-License-Identifier: MIT */
/*
 * Programs on this host that have VFs: 'vgpuctl run'. A program's lease belongs to its process, by
 * a pidfd, and ends with it. Control thread.
 */
#ifndef DAEMON_PROGRAM_H
#define DAEMON_PROGRAM_H

#include "control/call.h"

/* The method "program.start": reserves a VF for the calling process, as for a VM that starts. */
int program_start_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* Ends the leases of processes that have ended. Often. */
void programs_look(struct control *control);

#endif
