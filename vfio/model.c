/* SPDX-License-Identifier: MIT */
/* Names of models, which udev's database of hardware (hwdb) has by the kernel's modalias. */
#include <libudev.h>
#include <stdio.h>
#include <string.h>

#include "vfio/kernel.h"
#include "vfio/pci.h"

static bool look_up(const char *modalias, char *out, size_t size)
{
	struct udev *udev = udev_new();
	struct udev_hwdb *hwdb = udev ? udev_hwdb_new(udev) : NULL;
	struct udev_list_entry *all = NULL, *one = NULL;

	if (hwdb)
		all = udev_hwdb_get_properties_list_entry(hwdb, modalias, 0);
	if (all)
		one = udev_list_entry_get_by_name(all, "ID_MODEL_FROM_DATABASE");
	if (one)
		snprintf(out, size, "%s", udev_list_entry_get_value(one));
	udev_hwdb_unref(hwdb);
	udev_unref(udev);
	return one;
}

void pci_model(const char *address, char *out, size_t size)
{
	struct pci_info info = {.vendor = 0};
	char modalias[128];

	if (kernel_read_text(modalias, sizeof(modalias), PCI_DEVICES "/%s/modalias", address) > 0 &&
	    look_up(modalias, out, size))
		return;
	pci_describe(address, &info, NULL);
	snprintf(out, size, "%04x:%04x", info.vendor, info.device);
}
