/* SPDX-License-Identifier: MIT */
/* The device: there is one, the VF that this machine's CUDA programs have. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "library.h"

/* CUdevice_attribute */
enum { MAJOR = 75, MINOR = 76 };

/* What the GPU is: from the VF's registers, or from a program. */
struct about {
	char name[64];
	int major, minor;
};

static nvmlReturn_t get_about(const struct vf *vf, struct about *out)
{
	struct vf_facts facts = {0};
	struct programs_sum sum;
	int r = vf_facts(vf, &facts);

	if (r == -EIO)
		return NVML_ERROR_GPU_IS_LOST;
	*out = (struct about){.major = facts.major, .minor = facts.minor};
	memcpy(out->name, facts.name, sizeof(out->name));
	if (out->name[0])
		return NVML_SUCCESS;
	programs_sum(vf, &sum);
	memcpy(out->name, sum.about.name, sizeof(out->name));
	out->major = sum.about.attributes[MAJOR];
	out->minor = sum.about.attributes[MINOR];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(uint32_t *n)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin_system(n, &vf);

	if (e == NVML_SUCCESS)
		*n = vf ? 1 : 0;
	return CALL_END(e);
}

nvmlReturn_t nvmlDeviceGetCount(uint32_t *n)
{
	return nvmlDeviceGetCount_v2(n);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(uint32_t index, nvmlDevice_t *out)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin_system(out, &vf);

	if (e == NVML_SUCCESS && (!vf || index > 0))
		e = NVML_ERROR_INVALID_ARGUMENT;
	if (e == NVML_SUCCESS)
		*out = call_device();
	return CALL_END(e);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(uint32_t index, nvmlDevice_t *out)
{
	return nvmlDeviceGetHandleByIndex_v2(index, out);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin_system(uuid && out, &vf);
	char text[VF_UUID_SIZE] = "";

	if (e == NVML_SUCCESS && vf)
		vf_uuid(vf, text);
	if (e == NVML_SUCCESS && (!vf || strcasecmp(uuid, text) != 0))
		e = NVML_ERROR_NOT_FOUND;
	if (e == NVML_SUCCESS)
		*out = call_device();
	return CALL_END(e);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *out)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin_system(address && out, &vf);

	if (e == NVML_SUCCESS && (!vf || !vf_is_at(vf, address)))
		e = NVML_ERROR_NOT_FOUND;
	if (e == NVML_SUCCESS)
		*out = call_device();
	return CALL_END(e);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *address, nvmlDevice_t *out)
{
	return nvmlDeviceGetHandleByPciBusId_v2(address, out);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, uint32_t *index)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, index, &vf);

	if (e == NVML_SUCCESS)
		*index = 0;
	return CALL_END(e);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, uint32_t size)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, name, &vf);
	struct about about;

	if (e == NVML_SUCCESS)
		e = get_about(vf, &about);
	if (e == NVML_SUCCESS)
		e = call_text(name, size, about.name[0] ? about.name : "VF of softgpu");
	return CALL_END(e);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, uint32_t size)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, uuid, &vf);
	char text[VF_UUID_SIZE];

	if (e == NVML_SUCCESS) {
		vf_uuid(vf, text);
		e = call_text(uuid, size, text);
	}
	return CALL_END(e);
}

/* Copies the first BYTES of the structure: what the caller's version of it has. */
static nvmlReturn_t get_pci(nvmlDevice_t device, struct nvml_pci *pci, size_t bytes)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, pci, &vf);
	struct nvml_pci p;

	if (e == NVML_SUCCESS) {
		vf_pci(vf, &p);
		memcpy(pci, &p, bytes);
	}
	return e;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, struct nvml_pci *pci)
{
	return CALL_END(get_pci(device, pci, offsetof(struct nvml_pci, subsystem)));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, struct nvml_pci *pci)
{
	return CALL_END(get_pci(device, pci, offsetof(struct nvml_pci, address)));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci *pci)
{
	return CALL_END(get_pci(device, pci, sizeof(*pci)));
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, major && minor, &vf);
	struct about about;

	if (e == NVML_SUCCESS)
		e = get_about(vf, &about);
	if (e == NVML_SUCCESS && about.major == 0)
		e = NVML_ERROR_NOT_SUPPORTED;
	if (e == NVML_SUCCESS) {
		*major = about.major;
		*minor = about.minor;
	}
	return CALL_END(e);
}

/* A VF is no part of a GPU that has been cut in instances (MIG). */
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, uint32_t *is)
{
	const struct vf *vf;
	nvmlReturn_t e = call_begin(device, is, &vf);

	if (e == NVML_SUCCESS)
		*is = 0;
	return CALL_END(e);
}
