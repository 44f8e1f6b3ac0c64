/* SPDX-License-Identifier: MIT */
/* The modes of the VF. Nobody can set one here: each says how a VF behaves. */
#include <errno.h>

#include "library.h"

/* Other programs can have the VF beside one if its slots allow it. A socket has one client. */
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, int *mode)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, mode, &vf);
	struct vf_facts facts = {0};

	if (e == NVML_SUCCESS && vf_facts(vf, &facts) == -EIO)
		e = NVML_ERROR_GPU_IS_LOST;
	if (e == NVML_SUCCESS)
		*mode = facts.shared ? NVML_COMPUTEMODE_DEFAULT
				     : NVML_COMPUTEMODE_EXCLUSIVE_PROCESS;
	return CALL_END(e);
}

/* A function of softgpu is a share of a GPU that a VM has: NVIDIA's word is vGPU. A program that
 * has a VF by its socket is in no VM, and what it has is no bare metal: NVIDIA has no word for it.
 */
nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, int *mode)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, mode, &vf);
	struct nvml_pci pci = {.domain = NVML_NO_DOMAIN};

	if (e == NVML_SUCCESS)
		vf_pci(vf, &pci);
	if (e == NVML_SUCCESS && pci.domain == NVML_NO_DOMAIN)
		e = NVML_ERROR_NOT_SUPPORTED;
	if (e == NVML_SUCCESS)
		*mode = NVML_GPU_VIRTUALIZATION_MODE_VGPU;
	return CALL_END(e);
}

/* The last program that has the VF brings it down, and the next one begins with nothing. */
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, int *mode)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, mode, &vf);

	if (e == NVML_SUCCESS)
		*mode = NVML_FEATURE_DISABLED;
	return CALL_END(e);
}

/* A VF is not cut in instances, whatever the GPU is, and no reset changes that. */
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, uint32_t *current, uint32_t *pending)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, current && pending, &vf);

	if (e == NVML_SUCCESS)
		*current = *pending = NVML_DEVICE_MIG_DISABLE;
	return CALL_END(e);
}
