/* SPDX-License-Identifier: MIT */
/* Names of models, from udev's database of hardware (hwdb), by the kernel's modalias. */
#include <libudev.h>
#include <stdio.h>

#include "vfio/kernel.h"
#include "vfio/pci.h"

void pci_model(const struct pci_info *info, char *out, size_t size)
{
	struct udev_list_entry *all = NULL, *model = NULL;
	struct udev_hwdb *hwdb = NULL;
	struct udev *udev;
	char modalias[128];

	if (kernel_read_text(modalias, sizeof(modalias), PCI_DEVICES "/%s/modalias",
			     info->address) <= 0)
		return;
	udev = udev_new();
	if (udev)
		hwdb = udev_hwdb_new(udev);
	if (hwdb)
		all = udev_hwdb_get_properties_list_entry(hwdb, modalias, 0);
	if (all)
		model = udev_list_entry_get_by_name(all, "ID_MODEL_FROM_DATABASE");
	if (model)
		snprintf(out, size, "%s", udev_list_entry_get_value(model));
	udev_hwdb_unref(hwdb);
	udev_unref(udev);
}
