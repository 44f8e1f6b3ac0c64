/* SPDX-License-Identifier: MIT */
/*
 * Whether a packet may run at all: checks that any engine makes, on a copy that the guest cannot
 * change any more.
 */
#ifndef SOFTGPU_PACKET_H
#define SOFTGPU_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "vfio/gpuiov.h"

/* What a VF may reach: its partition, of which the first bytes are its window. */
struct packet_limits {
	uint64_t window, size; /* window <= size */
	bool modules;	       /* the engine takes MODULE_LOAD and LAUNCH */
};

/* SOFTGPU_OK, or what is wrong with P. A range lies in the window or behind it, never in both. */
enum softgpu_error packet_check(const struct packet_limits *limits, const struct softgpu_packet *p);

/* Whether COUNT things of SIZE bytes at OFFSET lie in the partition, as above, and aligned. */
enum softgpu_error packet_range(const struct packet_limits *limits, uint64_t offset, uint64_t count,
				uint64_t size);

/* Whether a ring of N packets at BASE is one: in the window, aligned, a power of two. */
bool packet_ring_is_valid(const struct packet_limits *limits, uint64_t base, uint64_t n);

/* Whether the 8 bytes of a fence lie at AT in the window, aligned. */
bool packet_fence_is_valid(const struct packet_limits *limits, uint64_t at);

#endif
