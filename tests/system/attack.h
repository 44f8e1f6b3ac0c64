/* SPDX-License-Identifier: MIT */
/* The attacks that tests/system/attack knows, and what they share. One process, one VF. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vgpu/types.h"

struct guest;
struct vfio_device;

/* When the attack ends, and how often it has done what it does. */
extern _Atomic vgpu_nsec attack_until;
extern _Atomic uint64_t attack_rounds;

/* Counts a round. Whether there is time for another. */
bool attack_goes_on(void);

#define ATTACK_IOVA (UINT64_C(1) << 32)

/* Ends the program: this machine cannot do it, for the reason in errno. */
__attribute__((noreturn)) void attack_give_up(const char *why);

/* Has DMA_OUT packets to ATTACK_IOVA executed, BYTES each, until time is over, the VF is lost, or
 * one takes a second. */
void attack_dma_out(struct guest *g, uint64_t bytes);

/* attack_files.c: files that the VF's process and the client have in common. They return when time
 * is over, or when the connection is gone. */
void attack_holes(struct vfio_device *d);
void attack_window(struct vfio_device *d);
void attack_hoard(struct vfio_device *d);
void attack_successions(struct vfio_device *d);
void attack_locked(struct guest *g);
void attack_filled(struct guest *g);
void attack_huge(struct guest *g);
void attack_sparse(struct guest *g);

/* attack_cuda.c: what the compiler and the worker of a VF execute. As above. */
void attack_bombs(struct guest *g);
void attack_bomb(struct guest *g);
void attack_launches(struct guest *g);
void attack_cycle(struct guest *g);

/* attack_fuse.c: a file that never answers. */
void attack_fuse(struct guest *g);
