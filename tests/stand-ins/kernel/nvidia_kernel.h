/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's licensed host driver over the machine of machine.h: a GPU at PF whose VFs can get a vGPU
 * type, as many of one type as there is room for.
 */
#pragma once

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

/* Process PID, of libvirt's VM with this UUID, has VF N open, and lies about its UUID; or it ends.
 */
void nvidia_vm(uint32_t pid, uint32_t n, const char *uuid);
/* Process PID of user UID has VF N open, and says that it has this name, and a VM with this UUID.
 */
void nvidia_process(uint32_t pid, uint32_t n, uint32_t uid, const char *uuid, const char *name);
/* libvirt has noted in the file PATH that process PID is that of the VM with this UUID. */
void nvidia_note(const char *path, uint32_t pid, const char *uuid);
void nvidia_vm_ends(uint32_t pid, uint32_t n);
