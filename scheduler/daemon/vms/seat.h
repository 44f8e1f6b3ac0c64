/* SPDX-License-Identifier: MIT */
/*
 * Who has a VF of a gated GPU: the process that its lease names, and that process's descendants.
 * A program's lease has its process from the beginning (tenant.h); that of a VM gets QEMU when
 * libvirt has started it. Control thread.
 */
#ifndef DAEMON_SEAT_H
#define DAEMON_SEAT_H

#include "control/call.h"

/* Tells the engine that the lease's process has the VF, with the lease's memory; again if the GPU
 * was lost meanwhile. No process: nobody has it. */
void seat_give(struct gpu *gpu, uint32_t vf);
/* The lease's process has the VF no more. On a gated GPU nobody has it before it is reset. */
void seat_take_away(struct gpu *gpu, uint32_t vf);
/* Gives the VF of a VM's lease to its QEMU, or takes it away from one that has ended: whether that
 * ends the VM, libvirt says. Often. */
void seat_look_at_vm(struct gpu *gpu, uint32_t vf);

#endif
