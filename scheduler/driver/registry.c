/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stddef.h>

#include "vgpu/driver.h"

const struct vgpu_driver_ops *const vgpu_drivers[] = {
	&vgpu_gpuiov_driver,
	&vgpu_xe_driver,
	&vgpu_gim_driver,
	&vgpu_nvidia_driver,
	&vgpu_null_driver,
	&vgpu_null_firmware_driver,
	NULL,
};

const struct vgpu_driver_ops *vgpu_driver_for(const char *device, struct vgpu_error *err)
{
	const struct vgpu_driver_ops *const *d;
	bool refused = false;
	int r;

	/* Another driver may accept a device that this one refuses. */
	for (d = vgpu_drivers; *d; d++) {
		r = (*d)->device->probe(device, err);
		if (r > 0)
			return *d;
		refused |= r < 0;
	}
	if (!refused)
		vgpu_error_set(
			err, -EINVAL,
			"%s: not a device; want sysfs:ADDRESS, vfio:ADDRESS, vfio-user:PATH, "
			"xe:ADDRESS, gim:ADDRESS, nvidia:ADDRESS or null:OPTIONS",
			device);
	return NULL;
}
