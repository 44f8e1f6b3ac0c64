/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "vgpu/partition.h"

#define MIB(bytes) ((bytes) >> 20)

static uint64_t round_up(uint64_t value, uint64_t granule)
{
	return (value + granule - 1) / granule * granule;
}

/* The largest profile that is not above SIZE, or SIZE itself where there are none. */
static uint64_t profile_below(const struct vgpu_partition_request *r, uint64_t span, uint64_t size)
{
	if (r->placement != VGPU_PLACE_PROFILE)
		return size / r->granule * r->granule;
	span = span / r->granule * r->granule;
	while (span > size && span / 2 % r->granule == 0)
		span /= 2;
	return span <= size ? span : 0;
}

/* The VF to be placed next: with profiles the largest, so that all lie on multiples of their
 * size. */
static uint32_t next_of(const struct vgpu_partition_request *r, const uint64_t *sizes,
			uint32_t placed)
{
	uint32_t i, best = r->n_vfs;

	for (i = 0; i < r->n_vfs; i++) {
		if (placed >> i & 1)
			continue;
		if (best == r->n_vfs ||
		    (r->placement == VGPU_PLACE_PROFILE && sizes[i] > sizes[best]))
			best = i;
	}
	return best;
}

int vgpu_partition_plan(const struct vgpu_partition_request *request, struct vgpu_partition *out,
			struct vgpu_error *err)
{
	struct vgpu_memory_extent storage[2 * VGPU_GPU_MAX_VFS + 2];
	uint64_t granule = request->granule, total = request->total / granule * granule;
	uint64_t pf, wanted, share = 0, sizes[VGPU_GPU_MAX_VFS];
	struct vgpu_memory_request one = {.placement = request->placement};
	struct vgpu_partition plan = {0};
	struct vgpu_memory table;
	uint32_t i, k, placed = 0, equal = 0;

	if (request->n_vfs == 0 || request->n_vfs > VGPU_GPU_MAX_VFS)
		return vgpu_error_set(err, -EINVAL, "%" PRIu32 " VFs: want 1 to %u", request->n_vfs,
				      VGPU_GPU_MAX_VFS);
	/* No size beyond the total, so that no sum below can overflow. */
	if (request->pf_reserve > total || request->save_area > total)
		return vgpu_error_set(err, -ENOSPC,
				      "the PF's reserve is larger than the GPU's memory (%" PRIu64
				      " MiB)",
				      MIB(total));
	pf = round_up(request->pf_reserve + request->save_area, granule);
	wanted = pf;
	for (i = 0; i < request->n_vfs; i++) {
		sizes[i] = request->sizes[i] == VGPU_SIZE_NONE ? 0 : request->sizes[i];
		if (sizes[i] > total)
			return vgpu_error_set(err, -ENOSPC,
					      "VF %" PRIu32 " wants %" PRIu64
					      " MiB, the GPU has %" PRIu64 " MiB",
					      i, MIB(sizes[i]), MIB(total));
		wanted += round_up(sizes[i], granule);
		equal += request->sizes[i] == 0;
	}
	if (equal > 0 && wanted < total)
		share = profile_below(request, total - pf, (total - wanted) / equal);
	if (wanted > total || (equal > 0 && share == 0))
		return vgpu_error_set(err, -ENOSPC,
				      "%" PRIu64 " MiB are spoken for (PF %" PRIu64
				      " MiB) and %" PRIu32 " VFs want an equal part of the rest, "
				      "but the GPU has %" PRIu64 " MiB in units of %" PRIu64
				      " MiB; make partitions smaller or fewer",
				      MIB(wanted), MIB(pf), equal, MIB(total), MIB(granule));
	plan.pf = (struct vgpu_extent){0, pf};
	plan.save_area = (struct vgpu_extent){pf - request->save_area, request->save_area};
	vgpu_memory_init(&table, storage, 2 * VGPU_GPU_MAX_VFS + 2, total, granule);
	if (pf > 0)
		vgpu_memory_reserve(&table, VGPU_GPU_MAX_VFS, 0, pf);
	one.base = pf;
	one.span = total - pf;
	for (k = 0; k < request->n_vfs; k++, placed |= 1u << i) {
		i = next_of(request, sizes, placed);
		one.size = request->sizes[i] ? sizes[i] : share;
		if (one.size == 0)
			continue;
		if (vgpu_memory_alloc(&table, &one, &plan.vfs[i].offset) < 0)
			return vgpu_error_set(err, -ENOSPC,
					      "the partition of VF %" PRIu32 ", %" PRIu64
					      " MiB, finds no place among the others; with "
					      "placement = profile, sizes are rounded up to 1/1, "
					      "1/2, 1/4 ... of %" PRIu64 " MiB",
					      i, MIB(one.size), MIB(one.span));
		plan.vfs[i].size = vgpu_memory_at(&table, plan.vfs[i].offset)->size;
	}
	plan.free = vgpu_memory_in(&table, VGPU_EXTENT_FREE);
	*out = plan;
	return 0;
}
