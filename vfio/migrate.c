/* SPDX-License-Identifier: MIT */
/*
 * Whether the state of a VF can be moved. Only an open device can answer that
 * (VFIO_DEVICE_FEATURE_MIGRATION), but opening resets the function. So vgpud decides by the name of
 * the VF's driver. QEMU, which has the device open, asks VFIO and refuses a migration that the
 * kernel or the firmware does not support in spite of the name.
 */
#include <stdio.h>
#include <string.h>

#include "vfio/kernel.h"
#include "vfio/pci.h"

/* The VFIO drivers for VFs of GPUs that implement the feature (Linux, drivers/vfio/pci; xe: 6.19).
 */
static const char *const can_move[] = {"xe-vfio-pci"};

bool pci_can_migrate(const char *driver)
{
	size_t i, n = sizeof(can_move) / sizeof(can_move[0]);

	for (i = 0; i < n && strcmp(can_move[i], driver) != 0; i++)
		;
	return i < n;
}

int pci_migration_kind(const char *address, char out[PCI_KIND_SIZE])
{
	int64_t vendor, device, revision;
	int r = kernel_read_number(&vendor, PCI_DEVICES "/%s/vendor", address);

	if (r == 0)
		r = kernel_read_number(&device, PCI_DEVICES "/%s/device", address);
	if (r == 0)
		r = kernel_read_number(&revision, PCI_DEVICES "/%s/revision", address);
	if (r == 0)
		snprintf(out, PCI_KIND_SIZE, "%04x:%04x:%02x", (unsigned)vendor & 0xffff,
			 (unsigned)device & 0xffff, (unsigned)revision & 0xff);
	return r;
}
