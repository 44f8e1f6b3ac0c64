/* SPDX-License-Identifier: MIT */
/* Packets that compute, and their expected results to the bit, computed in plain C one operation
 * after the other. */
#pragma once

#include <stdint.h>

#include "softgpu/packets.h"

struct job {
	const char *name;
	struct softgpu_packet packet; /* its offsets count from the slot's beginning */
	uint32_t places;	      /* which arguments are offsets, as bits */
	uint64_t in_bytes, bytes;     /* bytes of the slot: of the input, and in total */
	void (*fill)(uint8_t *slot);
	void (*expect)(uint8_t *slot); /* writes the expected result */
};

#define JOBS 10u
extern struct job jobs[JOBS];

/* Fills in the arguments that hold bits of floating-point numbers. Call it first. */
void jobs_begin(void);
