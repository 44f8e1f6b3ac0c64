/* SPDX-License-Identifier: MIT */
/* Maps granules of the VF's device memory at addresses. */
#include "cuda_private.h"

CUresult cuda_map_granules(struct device *d, CUdeviceptr at, uint64_t from, uint64_t n, bool *lost)
{
	const struct cu_access access = {{1, d->gpu}, 3};
	CUresult e = CUDA_SUCCESS;
	uint64_t mapped = 0;

	*lost = false;
	while (mapped < n && e == CUDA_SUCCESS) {
		e = d->api.cuMemMap(at + mapped * d->granule, d->granule, 0,
				    d->granules[from + mapped], 0);
		mapped += e == CUDA_SUCCESS;
	}
	if (e == CUDA_SUCCESS)
		e = d->api.cuMemSetAccess(at, n * d->granule, &access, 1);
	if (e != CUDA_SUCCESS && mapped > 0)
		*lost = d->api.cuMemUnmap(at, mapped * d->granule) != CUDA_SUCCESS;
	return e;
}
