/* SPDX-License-Identifier: MIT */
/*
 * What a VF may cause in threads of the real-time class, here and in the PF's driver: a token
 * bucket for each VF. A VF that has used up its bucket must wait before its next message, reset,
 * wake or new process. Its stops never wait, because vgpud waits for them.
 *
 * The time of softgpu's own thread of the VF is measured. What an interrupt costs the threads that
 * answer the PF, and the PF's driver, cannot be measured here, so it has a fixed price.
 *
 * The CPU time that a VF's process uses at a lent priority is measured and charged to this bucket,
 * too. A second, smaller bucket decides whether the priority is lent. Nothing else is charged to
 * that one, so a process that sends many messages still stops in time.
 */
#pragma once

#include <stdint.h>

#include "vgpu/types.h"

struct allowance_limits {
	uint64_t vf, all; /* parts of one CPU, per cent: of one VF, and of all VFs together */
	int64_t saved;	  /* largest saved allowance */
	int64_t owed; /* largest debt, so that a VF's next tenant does not wait long for the debt of
			 the last one */
};
extern const struct allowance_limits allowance_causes, allowance_loans;

/* Prices, nanoseconds of CPU time: an interrupt of the PF, with what its driver does then; a word
 * that its driver reads; a reset, after which its driver clears what the VF had; a process that
 * ends, with the reset that follows. */
#define ALLOWANCE_INTERRUPT (250 * VGPU_USEC)
#define ALLOWANCE_WORD (10 * VGPU_USEC)
#define ALLOWANCE_RESET (2400 * VGPU_USEC)
#define ALLOWANCE_PROCESS (3500 * VGPU_USEC)

struct allowance {
	const struct allowance_limits *limits;
	int64_t left; /* below 0: owed */
	vgpu_nsec at; /* when that was so */
};

/* Fills the bucket. */
void allowance_begin(struct allowance *a, const struct allowance_limits *limits, vgpu_nsec now);
/* Takes what has been used out of the bucket. */
void allowance_charge(struct allowance *a, vgpu_nsec used);
/* Returns how much of it is left, nanoseconds, for a VF of N that are enabled; 0: nothing. */
vgpu_nsec allowance_has(struct allowance *a, uint32_t n, vgpu_nsec now);
/* Returns how long until a VF, of N that are enabled, owes nothing, nanoseconds; 0: it owes
 * nothing. */
vgpu_nsec allowance_owes(struct allowance *a, uint32_t n, vgpu_nsec now);
