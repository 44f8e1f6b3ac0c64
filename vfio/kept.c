/* SPDX-License-Identifier: MIT */
#include "kept.h"

#include <linux/vfio.h>
#include <stdio.h>

#include "vfio/kernel.h"
#include "vfio/store.h"
#include "vgpu/descriptor.h"

const struct vfio_store *vfio_store;

enum { DEVICE, CONTROL, GROUP, PARTS };

/* Makes a name such as "vfio-0000-03-00.0-device": names in the store cannot contain colons. */
static const char *name_of(char name[64], const char *address, int part)
{
	static const char *const parts[PARTS] = {"device", "control", "group"};
	char *c;

	snprintf(name, 64, "vfio-%s-%s", address, parts[part]);
	for (c = name; *c; c++)
		*c = *c == ':' ? '-' : *c;
	return name;
}

void kept_drop(const char *address)
{
	char name[64];
	int i;

	for (i = 0; vfio_store && i < PARTS; i++)
		vfio_store->drop(name_of(name, address, i));
}

void kept_put(const char *address, const struct iommu *m, int device)
{
	const int fds[PARTS] = {device, m->control, m->group};
	char name[64];
	int i, r = 0;

	for (i = 0; vfio_store && i < PARTS && r == 0; i++)
		if (fds[i] >= 0)
			r = vfio_store->put(name_of(name, address, i), fds[i]);
	if (r < 0)
		kept_drop(address);
}

bool kept_take(const char *address, struct iommu *m, int *device)
{
	struct vfio_device_info info = {.argsz = sizeof(info)};
	int fds[PARTS], i;
	char name[64];

	if (!vfio_store)
		return false;
	for (i = 0; i < PARTS; i++)
		fds[i] = vfio_store->take(name_of(name, address, i));
	/* There is a group only where functions have no device nodes of their own. */
	if (fds[DEVICE] >= 0 && fds[CONTROL] >= 0 &&
	    vfio_kernel->ioctl(fds[DEVICE], VFIO_DEVICE_GET_INFO, &info) == 0) {
		*device = fds[DEVICE];
		*m = (struct iommu){.control = fds[CONTROL],
				    .group = fds[GROUP] < 0 ? -1 : fds[GROUP]};
		return true;
	}
	for (i = 0; i < PARTS; i++)
		vgpu_close(&fds[i]);
	kept_drop(address);
	return false;
}
