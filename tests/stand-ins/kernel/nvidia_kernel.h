/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's licensed host driver over the machine of machine.h: a GPU at PF whose VFs can get a vGPU
 * type, as many of one type as there is room for.
 */
#ifndef TESTS_NVIDIA_KERNEL_H
#define TESTS_NVIDIA_KERNEL_H

#include "reactive.h"

#define NVIDIA_VFS 4u
#define NVIDIA_TYPE 1428u
#define NVIDIA_OTHER_TYPE 1145u

extern uint32_t nvidia_types[NVIDIA_VFS];
/* How many VFs can have a type. */
extern uint32_t nvidia_room;
/* Called before each write of a type, with the number of the VF. NULL: nothing is. */
extern void (*nvidia_before_type)(uint32_t vf);

/* Make the machine with the GPU, on which vfio then looks (machine.h); and remove it. */
void make_nvidia_machine(void);
void remove_nvidia_machine(void);

/* Process PID, a VM with this UUID, has VF N open; or it ends. */
void nvidia_vm(uint32_t pid, uint32_t n, const char *uuid);
void nvidia_vm_ends(uint32_t pid, uint32_t n);

#endif
