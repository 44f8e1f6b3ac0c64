/* SPDX-License-Identifier: MIT */
/*
 * What a VF may cause in threads of the real-time class, here and in the PF's driver: a token
 * bucket for each VF. Who causes more has to wait with its messages, resets, wakes and new
 * processes; what vgpud waits for, which is a stop, does not wait for it.
 *
 * The time of softgpu's own thread of the VF is measured. What an interrupt costs the threads that
 * answer the PF, and the PF's driver, is not seen here, and has a price.
 */
#ifndef SOFTGPU_ALLOWANCE_H
#define SOFTGPU_ALLOWANCE_H

#include <stdint.h>

#include "vgpu/types.h"

/* One VF may cause this part of one CPU, and all VFs together that, per cent. */
#define ALLOWANCE_VF 5u
#define ALLOWANCE_ALL 20u
/* Prices, nanoseconds of CPU time: an interrupt of the PF, with what its driver does then; a word
 * that its driver reads; a reset, after which its driver clears what the VF had; a process that
 * ends, with the reset that follows. */
#define ALLOWANCE_INTERRUPT (250 * VGPU_USEC)
#define ALLOWANCE_WORD (10 * VGPU_USEC)
#define ALLOWANCE_RESET (2400 * VGPU_USEC)
#define ALLOWANCE_PROCESS (3500 * VGPU_USEC)

struct allowance {
	int64_t left; /* below 0: owed */
	vgpu_nsec at; /* when that was so */
};

/* Fills the bucket. */
void allowance_begin(struct allowance *a, vgpu_nsec now);
/* Takes what has been used out of the bucket. */
void allowance_charge(struct allowance *a, vgpu_nsec used);
/* How long until a VF, of N that are enabled, owes nothing, nanoseconds; 0: it owes nothing. */
vgpu_nsec allowance_owes(struct allowance *a, uint32_t n, vgpu_nsec now);

#endif
