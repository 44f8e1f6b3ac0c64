/* SPDX-License-Identifier: MIT */
/*
 * A packet, as pieces: each short enough to be waited for, or to be stopped between blocks, on what
 * GPUs of the last ten years do. What a guest can ask for that is longer in one piece (deep pixels
 * of MANDELBROT, kernels of its own) is stopped by harder means.
 */
#ifndef WORKER_PIECE_H
#define WORKER_PIECE_H

#include "device.h"

/* The packet at hand, and how much of it is in pieces already. */
struct piece_job {
	struct softgpu_packet packet;
	uint64_t at, inner;
	bool active;
};

/* Where partitions lie for the device. */
struct piece_space {
	uint64_t window_at, memory_at; /* of the window's first byte; of the first behind it */
	uint64_t window_size;
	uint64_t scratch; /* at least 32 bytes of state */
};

uint64_t piece_address(const struct piece_space *space, uint64_t offset);

/* Makes the next piece of JOB, whose packet has been checked and is none of modules: *OUT. False:
 * there are none left. */
bool piece_next(struct piece_job *job, const struct piece_space *space, struct piece *out);

#endif
