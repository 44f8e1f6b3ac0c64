/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Differences of QEMU's device API between 7.2 (Debian 12) and 10.0 (Debian 13).
 * Include it after QEMU's headers. tests/vm/setup writes QEMU_MAJOR.
 */
#pragma once

#include "qemu/osdep.h"

#include "qemu-major.h"

#if QEMU_MAJOR >= 10

#include "hw/pci/pci_device.h"

#define PROPERTY const Property
#define PROPERTIES_END

static inline void set_reset(DeviceClass *class, void (*reset)(DeviceState *dev))
{
	device_class_set_legacy_reset(class, reset);
}

static inline void init_ari(PCIDevice *d, uint16_t offset)
{
	pcie_ari_init(d, offset);
}

/* Realizes all VFs; the machine does not see them until it enables them. */
static inline bool init_sriov(PCIDevice *pf, uint16_t offset, const char *vf_type,
			      uint16_t vf_device, uint16_t vfs, Error **errp)
{
	return pcie_sriov_pf_init(pf, offset, vf_type, vf_device, vfs, vfs, 1, 1, errp);
}

static inline void register_vf_bar(PCIDevice *vf, int number, uint8_t type, MemoryRegion *region)
{
	pci_register_bar(vf, number, type, region);
}

/* This writes the SR-IOV registers, too. */
static inline void write_config(PCIDevice *d, uint32_t address, uint32_t value, int size)
{
	pci_default_write_config(d, address, value, size);
}

#else

#define PROPERTY Property
#define PROPERTIES_END DEFINE_PROP_END_OF_LIST(),

static inline void set_reset(DeviceClass *class, void (*reset)(DeviceState *dev))
{
	class->reset = reset;
}

static inline void init_ari(PCIDevice *d, uint16_t offset)
{
	pcie_ari_init(d, offset, 1);
}

/* A VF is realized when the machine enables it. */
static inline bool init_sriov(PCIDevice *pf, uint16_t offset, const char *vf_type,
			      uint16_t vf_device, uint16_t vfs, Error **errp)
{
	pcie_sriov_pf_init(pf, offset, vf_type, vf_device, vfs, vfs, 1, 1);
	return true;
}

static inline void register_vf_bar(PCIDevice *vf, int number, uint8_t type, MemoryRegion *region)
{
	pcie_sriov_vf_register_bar(vf, number, region);
}

static inline void write_config(PCIDevice *d, uint32_t address, uint32_t value, int size)
{
	pci_default_write_config(d, address, value, size);
	pcie_sriov_config_write(d, address, value, size);
}

#endif
