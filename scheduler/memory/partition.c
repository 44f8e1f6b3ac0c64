/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "vgpu/partition.h"

#define MIB(bytes) ((bytes) >> 20)

static uint64_t round_up(uint64_t value, uint64_t granule)
{
	return (value + granule - 1) / granule * granule;
}

/* The largest profile of at most SIZE; without profiles, SIZE rounded down. */
static uint64_t profile_below(const struct vgpu_partition_request *r, uint64_t span, uint64_t size)
{
	uint64_t profile = vgpu_memory_profile(span, r->granule);

	if (r->placement != VGPU_PLACE_PROFILE)
		return size / r->granule * r->granule;
	while (profile > size && profile / 2 % r->granule == 0)
		profile /= 2;
	return profile <= size ? profile : 0;
}

/* The size to allocate for SIZE: the smallest sufficient profile, or SIZE rounded up. */
static uint64_t size_above(const struct vgpu_partition_request *r, uint64_t span, uint64_t size)
{
	uint64_t profile = 0;

	if (r->placement == VGPU_PLACE_PROFILE && size > 0)
		profile = vgpu_memory_profile_of(span, r->granule, size);
	return profile ? profile : round_up(size, r->granule);
}

static bool is_pinned(const struct vgpu_partition_request *r, uint32_t vf)
{
	return r->host == 0 || r->pinned >> vf & 1;
}

/* The VF to place next: pinned VFs before others, and with profiles the largest first, so that each
 * partition is at a multiple of its size. */
static uint32_t next_of(const struct vgpu_partition_request *r, const uint64_t *sizes,
			vgpu_vf_set placed)
{
	uint32_t i, best = r->n_vfs;

	for (i = 0; i < r->n_vfs; i++) {
		if (placed >> i & 1)
			continue;
		if (best == r->n_vfs || is_pinned(r, i) > is_pinned(r, best) ||
		    (r->placement == VGPU_PLACE_PROFILE && sizes[i] > sizes[best] &&
		     is_pinned(r, i) == is_pinned(r, best)))
			best = i;
	}
	return best;
}

/* Decides the size of each VF's partition; PF: bytes of the PF. */
static int decide_sizes(const struct vgpu_partition_request *r, uint64_t total, uint64_t pf,
			uint64_t *sizes, struct vgpu_error *err)
{
	uint64_t pool = r->host ? r->host / r->granule * r->granule : total - pf;
	uint64_t share = 0, wanted = 0, pinned = 0, largest = 0;
	uint32_t i, equal = 0;

	for (i = 0; i < r->n_vfs; i++) {
		sizes[i] = r->sizes[i] == VGPU_SIZE_NONE ? 0 : r->sizes[i];
		if (sizes[i] > total)
			return vgpu_error_set(err, -ENOSPC,
					      "VF %" PRIu32 " is to have %" PRIu64
					      " MiB, but the GPU has %" PRIu64 " MiB",
					      i, MIB(sizes[i]), MIB(total));
		/* With host memory, a VF's home is as large as its partition. */
		sizes[i] = r->host ? size_above(r, total - pf, sizes[i])
				   : round_up(sizes[i], r->granule);
		if (r->host && is_pinned(r, i)) {
			if (r->sizes[i] == 0)
				return vgpu_error_set(err, -EINVAL,
						      "VF %" PRIu32 " is pinned: set its size, "
						      "memory_mib",
						      i);
			pinned += sizes[i];
			continue;
		}
		largest = sizes[i] > largest ? sizes[i] : largest;
		wanted += sizes[i];
		equal += r->sizes[i] == 0;
	}
	if (equal > 0 && wanted < pool) {
		share = (pool - wanted) / equal;
		share = profile_below(r, total - pf, share < total - pf ? share : total - pf);
		largest = share > largest ? share : largest;
	}
	if (wanted > pool || (equal > 0 && share == 0))
		return vgpu_error_set(err, -ENOSPC,
				      "%" PRIu64 " MiB are assigned (PF %" PRIu64
				      " MiB) and %" PRIu32 " VFs share the rest equally, "
				      "but %s %" PRIu64 " MiB in units of %" PRIu64
				      " MiB; make partitions smaller or fewer",
				      MIB(wanted + (r->host ? 0 : pf)), MIB(pf), equal,
				      r->host ? "host memory is" : "the GPU has",
				      MIB(r->host ? pool : total), MIB(r->granule));
	if (r->host && pinned + largest > total - pf)
		return vgpu_error_set(err, -ENOSPC,
				      "the pinned VFs have %" PRIu64
				      " MiB, the largest of the others %" PRIu64
				      " MiB: together more than the GPU's %" PRIu64
				      " MiB, so that it could never be swapped in",
				      MIB(pinned), MIB(largest), MIB(total - pf));
	for (i = 0; i < r->n_vfs; i++)
		sizes[i] = r->sizes[i] == 0 ? share : sizes[i];
	return 0;
}

int vgpu_partition_plan(const struct vgpu_partition_request *request, struct vgpu_partition *out,
			struct vgpu_error *err)
{
	struct vgpu_memory_extent storage[2 * VGPU_GPU_MAX_VFS + 2];
	uint64_t granule = request->granule, total = request->total / granule * granule;
	uint64_t pf, home = total, sizes[VGPU_GPU_MAX_VFS];
	struct vgpu_memory_request one = {.placement = request->placement};
	struct vgpu_partition plan = {0};
	struct vgpu_memory table;
	vgpu_vf_set placed = 0;
	uint32_t i, k;
	int r;

	if (request->n_vfs == 0 || request->n_vfs > VGPU_GPU_MAX_VFS)
		return vgpu_error_set(err, -EINVAL, "%" PRIu32 " VFs: must be 1 to %u",
				      request->n_vfs, VGPU_GPU_MAX_VFS);
	/* Sizes are at most the total, so that no sum below overflows. */
	if (request->pf_reserve > total || request->save_area > total ||
	    request->pf_reserve + request->save_area > total)
		return vgpu_error_set(err, -ENOSPC,
				      "the PF's reserve is larger than the GPU's memory (%" PRIu64
				      " MiB)",
				      MIB(total));
	pf = round_up(request->pf_reserve + request->save_area, granule);
	r = decide_sizes(request, total, pf, sizes, err);
	if (r < 0)
		return r;
	plan.pf = (struct vgpu_extent){0, pf};
	plan.save_area = (struct vgpu_extent){pf - request->save_area, request->save_area};
	vgpu_memory_init(&table, storage, 2 * VGPU_GPU_MAX_VFS + 2, total, granule);
	if (pf > 0)
		vgpu_memory_reserve(&table, VGPU_GPU_MAX_VFS, 0, pf);
	one.base = pf;
	one.span = total - pf;
	for (k = 0; k < request->n_vfs; k++, placed |= VGPU_VF_BIT(i)) {
		i = next_of(request, sizes, placed);
		one.size = sizes[i];
		if (one.size == 0)
			continue;
		r = vgpu_memory_alloc(&table, &one, &plan.vfs[i].offset);
		if (r < 0 && is_pinned(request, i))
			return vgpu_error_set(err, -ENOSPC,
					      "the partition of VF %" PRIu32 ", %" PRIu64
					      " MiB, does not fit beside the others; with "
					      "placement = profile, sizes are rounded up to 1/1, "
					      "1/2, 1/4 ... of %" PRIu64 " MiB",
					      i, MIB(one.size),
					      MIB(vgpu_memory_profile(one.span, granule)));
		plan.vfs[i].size =
			r < 0 ? one.size : vgpu_memory_at(&table, plan.vfs[i].offset)->size;
		if (is_pinned(request, i))
			continue;
		plan.homes[i] = (struct vgpu_extent){home, plan.vfs[i].size};
		home += plan.vfs[i].size;
		if (r < 0)
			plan.vfs[i] = plan.homes[i];
	}
	plan.free = vgpu_memory_in(&table, VGPU_EXTENT_FREE);
	*out = plan;
	return 0;
}
