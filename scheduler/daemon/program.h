/* SPDX-License-Identifier: MIT */
/*
 * Programs on this host that have VFs: 'vgpuctl run'. A program's lease belongs to its process, by
 * a pidfd, and ends with it. Control thread.
 */
#ifndef DAEMON_PROGRAM_H
#define DAEMON_PROGRAM_H

#include "call.h"

/* The method "program.start": reserves a VF for the calling process, as for a VM that starts. */
int program_start_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* Goes on when the call's reservation has its VF: gives it to the process, and answers. */
void program_began(struct call *call);
/* A lease of an earlier vgpud: the process has the VF again, or the lease is over. */
void program_found(struct gpu *gpu, uint32_t vf, uint32_t process, uint64_t started);
/* Ends the leases of processes that have ended. Often. */
void programs_look(struct control *control);

#endif
