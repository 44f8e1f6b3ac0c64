/* SPDX-License-Identifier: MIT */
#include "gpuiov.h"

bool gpuiov_has(const struct vgpu_driver *d, enum gpuiov_register reg)
{
	return d->layout->at[reg].space != GPUIOV_NOWHERE;
}

void gpuiov_place(const struct vgpu_driver *d, enum gpuiov_register reg, uint32_t *region,
		  uint64_t *offset)
{
	const struct gpuiov_location *at = &d->layout->at[reg];

	*region = at->space == GPUIOV_MMIO ? VFIO_REGION_BAR5 : VFIO_REGION_CONFIG;
	*offset = at->offset;
	if (at->space == GPUIOV_CAP)
		*offset += d->cap;
	else if (at->space == GPUIOV_BLOCK)
		*offset += d->block;
}

static uint32_t width(enum gpuiov_register reg)
{
	return reg == GPUIOV_FB_AVAILABLE || reg == GPUIOV_FB_CONSUMED	 ? 2
	       : reg == GPUIOV_CMD_STATUS || reg == GPUIOV_RESET_CONTROL ? 1
									 : 4;
}

int gpuiov_read(struct vgpu_driver *d, enum gpuiov_register reg, uint32_t *value)
{
	uint32_t region;
	uint64_t offset;

	*value = 0;
	gpuiov_place(d, reg, &region, &offset);
	return vfio_read(d->device, region, offset, value, width(reg));
}

int gpuiov_write(struct vgpu_driver *d, enum gpuiov_register reg, uint32_t value)
{
	uint32_t region;
	uint64_t offset;

	gpuiov_place(d, reg, &region, &offset);
	return vfio_write(d->device, region, offset, &value, width(reg));
}

int gpuiov_read_own(struct vgpu_driver *d, uint32_t offset, uint32_t *value)
{
	*value = 0;
	return vfio_read(d->device, VFIO_REGION_BAR5, offset, value, sizeof(*value));
}

int gpuiov_read_resets(struct vgpu_driver *d, uint32_t *going_on, uint32_t *ended)
{
	int r = gpuiov_read(d, GPUIOV_VF_RESET_REQ, going_on);

	*ended = 0;
	if (r != 0)
		return r;
	return gpuiov_read(d, GPUIOV_RESET_NOTIFICATION, ended);
}
