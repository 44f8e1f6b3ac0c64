/* SPDX-License-Identifier: MIT */
/* What Linux says of the GPU: whether it is there, and whether work comes to it by calls to the
 * kernel's driver, which then wait at a wall (tools/render/wall). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gated.h"
#include "vfio/kernel.h"
#include "vfio/pci.h"
#include "vgpu/wall.h"

#define DRM "/sys/class/drm"

struct search {
	char found[16], other[16]; /* drivers that have a wall */
};

static int look_at_node(void *data, const char *name)
{
	struct search *s = data;
	char driver[sizeof(s->found)];

	if (strncmp(name, "renderD", strlen("renderD")) != 0 ||
	    kernel_read_link(driver, sizeof(driver), DRM "/%s/device/driver", name) < 0 ||
	    !vgpu_wall_of(driver) || strcmp(driver, s->found) == 0)
		return 0;
	memcpy(s->found[0] ? s->other : s->found, driver, sizeof(driver));
	return 0;
}

/* The driver of the GPU, if its calls can wait; "": they cannot, or it has no driver of DRM. */
static int find(const char *device, char out[16], struct vgpu_error *err)
{
	struct search s = {"", ""};

	if (pci_is_address(device)) {
		kernel_read_link(s.found, sizeof(s.found), PCI_DEVICES "/%s/driver", device);
		if (!vgpu_wall_of(s.found))
			s.found[0] = '\0';
	} else {
		vfio_kernel->list(DRM, look_at_node, &s);
	}
	if (s.other[0])
		return vgpu_error_set(err, -EINVAL,
				      "wall = auto: this host has GPUs of %s and of %s: name the "
				      "device by its PCI address, or say wall = %s, %s or off",
				      s.found, s.other, s.found, s.other);
	memcpy(out, s.found, sizeof(s.found));
	return 0;
}

int gated_wall(const struct vgpu_driver_config *config, char out[16], struct vgpu_error *err)
{
	const char *device = config->device + strlen(GATED_PREFIX);
	const char *want = config->wall ? config->wall : "off";
	char names[256] = "";
	const struct vgpu_wall *w;
	struct pci_info info;

	out[0] = '\0';
	if (pci_is_address(device) && pci_describe(device, &info, err) < 0)
		return -ENODEV;
	if (strcmp(want, "off") == 0)
		return 0;
	if (strcmp(want, "auto") == 0)
		return find(device, out, err);
	if (vgpu_wall_of(want)) {
		snprintf(out, 16, "%s", want);
		return 0;
	}
	for (w = vgpu_walls; w->driver; w++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), ", %s", w->driver);
	return vgpu_error_set(err, -EINVAL, "wall = %s: want auto, off%s", want, names);
}
