/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "transports.h"
#include "vgpu/names.h"

#define DEVICE_NAME_SIZE 512

static const struct {
	const char *prefix;
	int (*open)(struct vfio_device **out, const char *name, struct vgpu_error *err);
} transports[] = {
	{"vfio-user:", vfio_user_open}, {"sysfs:", sysfs_device_open}, {"resource:", sysfs_vf_open},
	{"shared:", sysfs_vf_share},	{"registers:", sysfs_vf_look}, {"vfio:", vfio_pci_open},
	{"lease:", vfio_lease_open},
};

int vfio_device_open(struct vfio_device **out, const char *name, struct vgpu_error *err)
{
	char normal[DEVICE_NAME_SIZE];
	size_t i, length;

	if (vgpu_device_normal(name, normal, sizeof(normal)) < 0)
		return vgpu_error_set(err, -ENAMETOOLONG, "%.40s...: longer than %d characters",
				      name, DEVICE_NAME_SIZE - 1);
	name = normal;
	for (i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		length = strlen(transports[i].prefix);
		if (strncmp(name, transports[i].prefix, length) == 0)
			return transports[i].open(out, name + length, err);
	}
	return vgpu_error_set(err, -EINVAL,
			      "%s: not a device; want sysfs:ADDRESS, resource:ADDRESS, "
			      "shared:ADDRESS, vfio:ADDRESS, vfio-user:PATH or lease:PATH",
			      name);
}

void vfio_device_close(struct vfio_device *d)
{
	if (d)
		d->ops->close(d);
}
