/* SPDX-License-Identifier: MIT */
/* Finds the GPU and its kernel driver in /sys, and whether a wall (tools/render/wall) can catch the
 * calls that give work to that driver. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gated.h"
#include "vfio/kernel.h"
#include "vfio/pci.h"
#include "vgpu/wall.h"

#define DRM "/sys/class/drm"

struct search {
	const struct vgpu_wall *found, *other;
};

/* Returns the wall for the driver to which a LINK of a device in /sys leads, or NULL. */
static const struct vgpu_wall *wall_at(const char *devices, const char *name, const char *link)
{
	char driver[32];
	int r = kernel_read_link(driver, sizeof(driver), "%s/%s/%s", devices, name, link);

	return r < 0 ? NULL : vgpu_wall_of(driver);
}

static int look_at_node(void *data, const char *name)
{
	struct search *s = data;
	const struct vgpu_wall *wall = strncmp(name, "renderD", strlen("renderD")) == 0
					       ? wall_at(DRM, name, "device/driver")
					       : NULL;

	if (wall && wall != s->found)
		*(s->found ? &s->other : &s->found) = wall;
	return 0;
}

/* Writes to OUT the GPU's driver, or "" if no wall can catch its calls or it has no DRM driver.
 * Returns 0, or -EINVAL with the reason: the host has GPUs of several such drivers. */
static int find(const char *device, char out[16], struct vgpu_error *err)
{
	struct search s = {NULL, NULL};

	if (pci_is_address(device))
		s.found = wall_at(PCI_DEVICES, device, "driver");
	else
		vfio_kernel->list(DRM, look_at_node, &s);
	if (s.other)
		return vgpu_error_set(err, -EINVAL,
				      "wall = auto: this host has GPUs of %s and of %s: name the "
				      "device by its PCI address, or say wall = %s, %s or off",
				      s.found->driver, s.other->driver, s.found->driver,
				      s.other->driver);
	snprintf(out, 16, "%s", s.found ? s.found->driver : "");
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
	w = vgpu_wall_of(want);
	if (w) {
		snprintf(out, 16, "%s", w->driver);
		return 0;
	}
	for (w = vgpu_walls; w->driver; w++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), ", %s", w->driver);
	return vgpu_error_set(err, -EINVAL, "wall = %s: want auto, off%s", want, names);
}
