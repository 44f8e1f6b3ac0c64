/* SPDX-License-Identifier: MIT */
/* Shared by the memory table and its plans. */
#pragma once

#include "vgpu/memory.h"

static inline bool nobodys(const struct vgpu_memory_extent *e)
{
	return e->state == VGPU_EXTENT_FREE || e->state == VGPU_EXTENT_SCRUBBING;
}

/* Returns where in the free extent SIZE bytes fit; UINT64_MAX: nowhere. */
uint64_t table_place_in(const struct vgpu_memory_extent *e, const struct vgpu_memory_request *r,
			uint64_t size);
/* Returns where a request fits if the extent at OLD (NULL: none) were free; UINT64_MAX: nowhere.
 * The table is unchanged afterwards. */
uint64_t table_place_without(struct vgpu_memory *m, const struct vgpu_memory_extent *old,
			     const struct vgpu_memory_request *request, uint64_t size);
