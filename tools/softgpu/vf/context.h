/* SPDX-License-Identifier: MIT */
/* A VF's context on the engine that computes in tiles, or on a worker: what SAVE keeps. */
#ifndef VF_CONTEXT_H
#define VF_CONTEXT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "page.h"
#include "vfio/gpuiov.h"

/* How far the packet at hand has come. It is saved and loaded as it is. */
struct job {
	struct softgpu_packet packet;
	uint64_t at; /* in units of the packet's own */
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

#endif
