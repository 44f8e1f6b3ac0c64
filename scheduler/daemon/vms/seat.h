/* SPDX-License-Identifier: MIT */
/*
 * The process that has a VF of a gated GPU: the process in its lease, and that process's
 * descendants. A program's lease has its process from the beginning (tenant.h); a VM's lease gets
 * QEMU's when libvirt has started it. Control thread.
 */
#pragma once

#include "control/call.h"

/* Tells the engine that the lease's process has the VF, with the lease's memory; again if the GPU
 * was lost meanwhile. Without a process, no process has it. While the lease `loses_by`: takes the
 * VF from its processes; the lease's seat is SEAT_GIVEN when all of them have ended. */
void seat_give(struct gpu *gpu, uint32_t vf);
/* The lease's process has lost the VF. On a gated GPU no process gets it before it is reset. */
void seat_take_away(struct gpu *gpu, uint32_t vf);
/* Gives the VF of a VM's lease to its QEMU, or takes it away from one that has ended; libvirt
 * decides whether the VM has ended. To be called often. */
void seat_look_at_vm(struct gpu *gpu, uint32_t vf);
