/* SPDX-License-Identifier: MIT */
/* Packets that compute, and what has to come out, to the bit: in plain C, one operation after the
 * other. */
#ifndef TESTS_JOBS_H
#define TESTS_JOBS_H

#include <stdint.h>

#include "vfio/gpuiov.h"

struct job {
	const char *name;
	struct softgpu_packet packet; /* offsets are from the slot's beginning */
	uint32_t places;	      /* which arguments are offsets: bits */
	uint64_t in_bytes, bytes;     /* of the slot: what goes in, and all */
	void (*fill)(uint8_t *slot);
	void (*expect)(uint8_t *slot); /* what the packet does */
};

#define JOBS 10u
extern struct job jobs[JOBS];

/* Fills in the arguments that are bits of floating point numbers. Before anything else. */
void jobs_begin(void);

#endif
