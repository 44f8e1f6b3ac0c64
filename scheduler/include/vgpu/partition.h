/* SPDX-License-Identifier: MIT */
/*
 * Plans how a GPU's memory is divided between its functions at first. Pure: numbers in, numbers
 * out.
 *
 *     0                                                                     total
 *     | PF reserve (context-save area at its end) | VF 0 | VF 1 | ... | free | homes |
 *
 * With host memory, the VFs together may have more memory than the GPU. Each VF that is not pinned
 * has a home: a range of host memory, addressed after the GPU's own, that is reserved for it, so
 * that it can always be swapped out.
 */
#pragma once

#include "vgpu/memory.h"

struct vgpu_extent {
	uint64_t offset, size; /* bytes */
};

/* A size: the VF has no memory at first. */
#define VGPU_SIZE_NONE UINT64_MAX

struct vgpu_partition_request {
	uint64_t total;	     /* bytes of GPU memory for all functions */
	uint64_t granule;    /* bytes; offsets and sizes are multiples of it */
	uint64_t pf_reserve; /* bytes for the PF itself, without the context-save area */
	uint64_t save_area;  /* bytes of the context-save area for all VFs */
	uint32_t n_vfs;
	uint64_t sizes[VGPU_GPU_MAX_VFS]; /* bytes; 0: an equal part of the rest */
	uint64_t host;	    /* bytes of host memory, for the homes; 0: no VF is swapped */
	vgpu_vf_set pinned; /* never swapped out */
	enum vgpu_placement placement;
};

struct vgpu_partition {
	struct vgpu_extent pf, save_area;	    /* save_area lies within pf */
	struct vgpu_extent vfs[VGPU_GPU_MAX_VFS];   /* offset beyond the total: swapped out */
	struct vgpu_extent homes[VGPU_GPU_MAX_VFS]; /* size 0: the VF has no home */
	uint64_t free;				    /* bytes without an owner */
};

/*
 * Places all partitions, disjoint, aligned and within the total, or none. Explicit sizes are
 * rounded up to the granule, or to a profile. Returns 0; or -EINVAL or -ENOSPC with the reason in
 * ERR, and OUT unchanged. Any thread.
 */
int vgpu_partition_plan(const struct vgpu_partition_request *request, struct vgpu_partition *out,
			struct vgpu_error *err);
