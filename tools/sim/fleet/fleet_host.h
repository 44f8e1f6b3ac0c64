/* SPDX-License-Identifier: MIT */
/* A GPU of a fleet, with the real policy and the real table of memory. */
#pragma once

#include "fleet.h"
#include "vgpu/memory.h"
#include "vgpu/param.h"

/* What a server asks for: of one GPU. */
struct fleet_size {
	uint64_t share; /* per mille */
	uint64_t memory_mib;
};

struct fleet_gpu {
	void *policy;  /* state of qos */
	uint32_t used; /* VFs, as bits */
	struct vgpu_memory memory;
	uint64_t offset[VGPU_GPU_MAX_VFS]; /* offset of each VF's partition */
};

/* What all GPUs of a fleet have in common. */
struct fleet_kind {
	const struct fleet_options *o;
	struct vgpu_facts facts;
	int64_t params[VGPU_MAX_PARAMS];
	struct vgpu_memory_extent *scratch;
	uint32_t extents;
};

enum fleet_why { FLEET_TAKEN, FLEET_NO_VF, FLEET_NO_MEMORY, FLEET_NO_TIME };

/* Initialises KIND, which fleet_kind_finish frees. Returns 0 or -ENOMEM. */
int fleet_kind_init(struct fleet_kind *kind, const struct fleet_options *o);
void fleet_kind_finish(struct fleet_kind *kind);
/* Initialises an empty GPU, which fleet_gpu_finish frees. Returns 0 or -ENOMEM. */
int fleet_gpu_init(struct fleet_gpu *gpu, const struct fleet_kind *kind);
void fleet_gpu_finish(struct fleet_gpu *gpu);
/* Gives a server a VF with memory and a guarantee, in the order in which vgpud's hook requests
 * them, or changes nothing. Returns FLEET_TAKEN, with the VF's number in *VF, or why it refuses. */
enum fleet_why fleet_gpu_take(struct fleet_gpu *gpu, const struct fleet_kind *kind,
			      const struct fleet_size *size, uint32_t *vf);
void fleet_gpu_give(struct fleet_gpu *gpu, const struct fleet_kind *kind, uint32_t vf);
/* Writes what one GPU offers, as vgpuctl inventory states it: equal shares of all VFs, which its
 * policy admits. Returns false if it admits none. GPU must be empty, and is empty afterwards. */
bool fleet_gpu_inventory(struct fleet_gpu *gpu, const struct fleet_kind *kind,
			 struct fleet_inventory *out);
