/* SPDX-License-Identifier: MIT */
/*
 * Divides a packet into pieces. On GPUs of the last ten years each piece is so short that a stop
 * can wait for its end, or it can be stopped between blocks. What a guest can make longer
 * (MANDELBROT with many iterations, its own GPU kernels) is stopped hard.
 */
#pragma once

#include "device.h"

/* The packet being executed, and how much of it has become pieces. */
struct piece_job {
	struct softgpu_packet packet;
	uint64_t at, inner;
	bool active;
};

/* The partition in the device's addresses. */
struct piece_space {
	uint64_t window_at, memory_at; /* the window's first byte; the first byte behind it */
	uint64_t window_size;
	uint64_t arena_at; /* the address of SOFTGPU_ARENA_AT */
	uint64_t scratch;  /* at least 32 bytes of state */
};

/* Returns the device's address of a byte of the partition, or of the arena. */
uint64_t piece_address(const struct piece_space *space, uint64_t offset);

/* Makes the next piece of JOB: *OUT. JOB's packet has been checked, and is not about modules.
 * Returns false if there are no more pieces. */
bool piece_next(struct piece_job *job, const struct piece_space *space, struct piece *out);
