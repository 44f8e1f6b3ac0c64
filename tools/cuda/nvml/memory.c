/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "library.h"

static nvmlReturn_t look(const struct vf *vf, struct nvml_memory *out)
{
	struct vf_facts facts = {0};
	struct programs_sum sum;
	int r = vf_facts(vf, &facts);

	if (r == -EIO)
		return NVML_ERROR_GPU_IS_LOST;
	programs_sum(vf, &sum);
	if (sum.unknown)
		return NVML_ERROR_NO_PERMISSION;
	out->total = r == 0 ? facts.total : sum.total;
	if (out->total == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	out->used = sum.used < out->total ? sum.used : out->total;
	out->left = out->total - out->used;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *memory)
{
	const struct vf *vf;
	struct nvml_memory m;
	nvmlReturn_t e = call_begin(device, memory, &vf);

	if (e == NVML_SUCCESS)
		e = look(vf, &m);
	if (e == NVML_SUCCESS)
		*memory = m;
	return CALL_END(e);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct nvml_memory_v2 *memory)
{
	const struct vf *vf;
	struct nvml_memory m;
	nvmlReturn_t e = call_begin(device, memory, &vf);

	if (e == NVML_SUCCESS && memory->version != NVML_MEMORY_V2)
		e = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (e == NVML_SUCCESS)
		e = look(vf, &m);
	if (e == NVML_SUCCESS)
		*memory = (struct nvml_memory_v2){.version = memory->version,
						  .total = m.total,
						  .left = m.left,
						  .used = m.used};
	return CALL_END(e);
}
