/* SPDX-License-Identifier: MIT */
/* Answers a guest's queries about its modules. Functions and variables are looked up by name each
 * time, so nothing that a guest supplies is stored. */
#include <errno.h>

#include "cuda_private.h"

int cuda_attributes(struct device *d, uint32_t module, const char *name, int32_t *out)
{
	CUfunction f;
	int i;

	if (d->api.cuModuleGetFunction(&f, d->modules[module], name) != CUDA_SUCCESS)
		return -EINVAL;
	for (i = 0; i < (int)SOFTGPU_FUNCTION_ATTRIBUTES; i++)
		if (d->api.cuFuncGetAttribute(&out[i], i, f) != CUDA_SUCCESS)
			out[i] = 0;
	return 0;
}

int cuda_occupancy(struct device *d, uint32_t module, const char *name, uint32_t threads,
		   uint32_t shared, uint32_t *blocks)
{
	int n = 0;
	CUfunction f;
	CUresult e;

	if (threads == 0 || threads > 1024 || shared > (uint32_t)d->max_shared ||
	    d->api.cuModuleGetFunction(&f, d->modules[module], name) != CUDA_SUCCESS)
		return -EINVAL;
	if (shared > 0 && cuda_allow_shared(d, f) != CUDA_SUCCESS)
		return -EINVAL;
	e = d->api.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, (int)threads, shared);
	if (e != CUDA_SUCCESS || n < 0)
		return -EINVAL;
	*blocks = (uint32_t)n;
	return 0;
}

int cuda_symbol(struct device *d, uint32_t module, const char *name, uint64_t *at, uint64_t *bytes)
{
	CUdeviceptr found = 0;
	size_t n = 0;

	if (d->api.cuModuleGetGlobal(&found, &n, d->modules[module], name) != CUDA_SUCCESS)
		return -EINVAL;
	*at = found;
	*bytes = n;
	return 0;
}
