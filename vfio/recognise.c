/* SPDX-License-Identifier: MIT */
#include "vfio/recognise.h"

#include <errno.h>
#include <linux/pci_regs.h>
#include <string.h>

#include "vfio/device.h"
#include "softgpu/registers.h"
#include "vfio/gpuiov.h"

/* No AMD GPU is listed, because how to clear their memory is not published. */
static const struct {
	uint16_t vendor, device;
	const char *model;
} known[] = {
	{SOFTGPU_VENDOR, SOFTGPU_DEVICE_PF, "softgpu"},
};

static const char *model_of(const uint8_t *config)
{
	uint16_t vendor, device;
	size_t i;

	memcpy(&vendor, config + PCI_VENDOR_ID, sizeof(vendor));
	memcpy(&device, config + PCI_DEVICE_ID, sizeof(device));
	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].vendor == vendor && known[i].device == device)
			return known[i].model;
	return NULL;
}

int gpuiov_recognise(const uint8_t config[GPUIOV_CONFIG_SIZE], size_t size,
		     struct gpuiov_identity *out, struct vgpu_error *err)
{
	uint32_t vsec = 0, left;

	*out = (struct gpuiov_identity){.model = NULL};
	if (size < PCI_STD_HEADER_SIZEOF)
		return vgpu_error_set(err, -ENODEV, "its configuration space cannot be read");
	out->model = model_of(config);
	if (!out->model)
		return vgpu_error_set(err, -ENODEV, "not a GPU that vgpud has a driver for");
	/* The kernel shows the rest of the configuration space only to root. */
	if (size < GPUIOV_CONFIG_SIZE)
		return vgpu_error_set(err, -EACCES,
				      "only root can read its capabilities: run this as root");
	if (!vfio_find_ext_cap(config, PCI_EXT_CAP_SRIOV, &out->sriov))
		return vgpu_error_set(err, -ENODEV, "no SR-IOV capability");
	/* The number of steps is limited, because a circular chain has no end. */
	for (left = GPUIOV_CONFIG_SIZE / 8; left > 0 && (vsec & 0xffff) != GPUIOV_VSEC_ID; left--) {
		if (!vfio_find_ext_cap(config, PCI_EXT_CAP_VENDOR, &out->cap))
			return vgpu_error_set(err, -ENODEV, "no GPU-IOV capability");
		memcpy(&vsec, config + out->cap + 4, sizeof(vsec));
	}
	if (left == 0)
		return vgpu_error_set(err, -ENODEV, "its capabilities have no end");
	out->cap_length = vsec >> 20;
	if (out->sriov > GPUIOV_CONFIG_SIZE - SRIOV_SIZE ||
	    out->cap_length > GPUIOV_CONFIG_SIZE - out->cap)
		return vgpu_error_set(err, -ENODEV,
				      "its SR-IOV or GPU-IOV capability does not lie within the "
				      "configuration space");
	return 0;
}
