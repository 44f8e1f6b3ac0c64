/* SPDX-License-Identifier: MIT */
/*
 * How a GPU's memory is split between its functions to begin with. Pure: numbers in, numbers out.
 *
 *     0                                                                     total
 *     | PF reserve (context-save area at its end) | VF 0 | VF 1 | ... | free | homes |
 *
 * With host memory, VFs may have more together than the GPU has. Each of them that is not pinned
 * has a home there, beyond the GPU's memory, that it is swapped out to, and so a way out always.
 */
#ifndef VGPU_PARTITION_H
#define VGPU_PARTITION_H

#include "vgpu/memory.h"

struct vgpu_extent {
	uint64_t offset, size; /* bytes */
};

/* A VF that has no memory, until it is given some. */
#define VGPU_SIZE_NONE UINT64_MAX

struct vgpu_partition_request {
	uint64_t total;	     /* bytes of memory that the GPU has for all of its functions */
	uint64_t granule;    /* bytes; offsets and sizes are multiples of it */
	uint64_t pf_reserve; /* bytes for the PF itself, without the context-save area */
	uint64_t save_area;  /* bytes of the context-save area, all VFs together */
	uint32_t n_vfs;
	uint64_t sizes[VGPU_GPU_MAX_VFS]; /* bytes; 0: an equal part of what is left */
	uint64_t host;	 /* bytes of host memory, for all that are not pinned; 0: none is swapped */
	uint32_t pinned; /* bitmap of VFs that are never swapped out */
	enum vgpu_placement placement;
};

struct vgpu_partition {
	struct vgpu_extent pf, save_area;	    /* save_area lies within pf */
	struct vgpu_extent vfs[VGPU_GPU_MAX_VFS];   /* beyond the total: swapped out */
	struct vgpu_extent homes[VGPU_GPU_MAX_VFS]; /* of size 0: it has none */
	uint64_t free;				    /* bytes that no function got */
};

/*
 * Lays the partitions out, disjoint, aligned and within the total; all or nothing. Explicit sizes
 * are rounded up to the granule, or to a profile. Returns 0, or -EINVAL / -ENOSPC with the reason
 * in ERR and OUT untouched. Any thread.
 */
int vgpu_partition_plan(const struct vgpu_partition_request *request, struct vgpu_partition *out,
			struct vgpu_error *err);

#endif
