/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "user_client.h"
#include "vfio/device.h"

static const struct {
	const char *prefix;
	int (*open)(struct vfio_device **out, const char *name, struct vgpu_error *err);
} transports[] = {
	{"vfio-user:", vfio_user_open},
};

int vfio_device_open(struct vfio_device **out, const char *name, struct vgpu_error *err)
{
	size_t i, length;

	for (i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		length = strlen(transports[i].prefix);
		if (strncmp(name, transports[i].prefix, length) == 0)
			return transports[i].open(out, name + length, err);
	}
	return vgpu_error_set(err, -EINVAL, "%s: not a device; want vfio-user:PATH", name);
}

void vfio_device_close(struct vfio_device *d)
{
	if (d)
		d->ops->close(d);
}

#define EXT_CAP_FIRST 0x100u
#define EXT_CAP_END 0x1000u

bool vfio_find_ext_cap(const uint8_t *config, uint16_t id, uint16_t *at)
{
	uint32_t header, pos, left;

	/* A chain can have no more members than places. */
	pos = EXT_CAP_FIRST;
	if (*at) {
		memcpy(&header, config + *at, sizeof(header));
		pos = header >> 20;
	}
	for (left = (EXT_CAP_END - EXT_CAP_FIRST) / 8; left > 0; left--) {
		if (pos < EXT_CAP_FIRST || pos > EXT_CAP_END - 8 || pos % 4)
			return false;
		memcpy(&header, config + pos, sizeof(header));
		if (header == 0 || header == UINT32_MAX)
			return false;
		if ((header & 0xffff) == id && pos != *at) {
			*at = (uint16_t)pos;
			return true;
		}
		pos = header >> 20;
	}
	return false;
}
