/* SPDX-License-Identifier: MIT */
/* Between the table of memory and the plans for it. */
#ifndef MEMORY_TABLE_H
#define MEMORY_TABLE_H

#include "vgpu/memory.h"

static inline bool nobodys(const struct vgpu_memory_extent *e)
{
	return e->state == VGPU_EXTENT_FREE || e->state == VGPU_EXTENT_SCRUBBING;
}

/* Where in a free extent a piece of SIZE goes; UINT64_MAX: nowhere. */
uint64_t table_place_in(const struct vgpu_memory_extent *e, const struct vgpu_memory_request *r,
			uint64_t size);
/* Where a request goes if the extent at OLD, NULL for none, were free. The table is as it was. */
uint64_t table_place_without(struct vgpu_memory *m, const struct vgpu_memory_extent *old,
			     const struct vgpu_memory_request *request, uint64_t size);

#endif
