/* SPDX-License-Identifier: MIT */
/* A VF's context, which SAVE keeps: on the engine that computes in tiles, or on a worker. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "page.h"
#include "softgpu/registers.h"
#include "softgpu/packets.h"
#include "vfio/gpuiov.h"

/* The current packet and its progress. It is saved and loaded unchanged. */
struct job {
	struct softgpu_packet packet;
	uint64_t at; /* progress, in units that depend on the opcode */
	uint64_t inner;
	uint32_t active, pad;
	union {
		uint32_t sha[8];
		float acc[256];
		struct {
			double x, y;
		} z;
	};
};

struct context {
	uint64_t ring_base, ring_size, rptr, fence_addr;
	struct job job;
};
_Static_assert(sizeof(struct context) <= VF_IMAGE_SIZE, "a context fits the image");
