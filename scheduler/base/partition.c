/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "vgpu/partition.h"

#define MIB(bytes) ((bytes) >> 20)

static uint64_t round_up(uint64_t value, uint64_t granule)
{
	return (value + granule - 1) / granule * granule;
}

int vgpu_partition_plan(const struct vgpu_partition_request *request, struct vgpu_partition *out,
			struct vgpu_error *err)
{
	uint64_t granule = request->granule, total = request->total / granule * granule;
	uint64_t pf, wanted, share = 0, at;
	struct vgpu_partition plan = {0};
	uint32_t i, equal = 0;

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
		if (request->sizes[i] > total)
			return vgpu_error_set(err, -ENOSPC,
					      "VF %" PRIu32 " wants %" PRIu64
					      " MiB, the GPU has %" PRIu64 " MiB",
					      i, MIB(request->sizes[i]), MIB(total));
		wanted += round_up(request->sizes[i], granule);
		equal += request->sizes[i] == 0;
	}
	if (equal > 0 && wanted < total)
		share = (total - wanted) / equal / granule * granule;
	if (wanted > total || (equal > 0 && share == 0))
		return vgpu_error_set(err, -ENOSPC,
				      "%" PRIu64 " MiB are spoken for (PF %" PRIu64
				      " MiB) and %" PRIu32 " VFs want an equal part of the rest, "
				      "but the GPU has %" PRIu64 " MiB in units of %" PRIu64
				      " MiB; make partitions smaller or fewer",
				      MIB(wanted), MIB(pf), equal, MIB(total), MIB(granule));
	plan.pf = (struct vgpu_extent){0, pf};
	plan.save_area = (struct vgpu_extent){pf - request->save_area, request->save_area};
	at = pf;
	for (i = 0; i < request->n_vfs; i++) {
		plan.vfs[i].offset = at;
		plan.vfs[i].size = request->sizes[i] ? round_up(request->sizes[i], granule) : share;
		at += plan.vfs[i].size;
	}
	plan.free = total - at;
	*out = plan;
	return 0;
}
