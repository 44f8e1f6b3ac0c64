/* SPDX-License-Identifier: MIT */
/*
 * Checks whether a packet may run. All engines make these checks, on a copy that the guest cannot
 * change.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/packets.h"

/* What the packets of a VF may access: its partition. The partition begins with the window. */
struct packet_limits {
	uint64_t window, size; /* bytes of the window and the partition; window <= size */
	bool modules;	       /* the engine executes MODULE_LOAD and LAUNCH */
	/* The ring's range of the arena: a number for each granule, 0: it is not mapped; where the
	 * range begins, as an offset; its granules, and the bytes of one. NULL: there is none. */
	const uint32_t *arena;
	uint64_t arena_at, granules, granule;
};

/* Returns SOFTGPU_OK, or what is wrong with P. A range must lie in the window or behind it, not in
 * both, or in the arena, where all of it must be mapped. */
enum softgpu_error packet_check(const struct packet_limits *limits, const struct softgpu_packet *p);

/* Checks a range of COUNT elements of SIZE bytes at OFFSET: it must be aligned to SIZE, and lie in
 * the partition, as above. Returns SOFTGPU_OK, SOFTGPU_BAD_ARGUMENT or SOFTGPU_OUT_OF_RANGE. */
enum softgpu_error packet_range(const struct packet_limits *limits, uint64_t offset, uint64_t count,
				uint64_t size);

/* Returns whether N packets at BASE can be a ring: it lies in the window and is aligned, and N is a
 * power of two. */
bool packet_ring_is_valid(const struct packet_limits *limits, uint64_t base, uint64_t n);

/* Returns whether the 8 bytes of a fence lie at AT in the window, aligned. */
bool packet_fence_is_valid(const struct packet_limits *limits, uint64_t at);
