/* SPDX-License-Identifier: MIT */
/* A function's configuration space, of the PF in the device and of a VF in its process. */
#ifndef SOFTGPU_PCI_H
#define SOFTGPU_PCI_H

#include <stdint.h>

#define PCI_CONFIG_SIZE 4096u
#define BAR5_SIZE 0x40000u
#define BAR2_SIZE 0x1000u
#define BAR4_SIZE 0x1000u /* MSI-X table and pending bits */

/* Numbers that no maker uses; see docs/softgpu.md. */
#define DEVICE_PF 0x5347u
#define DEVICE_VF 0x5348u

/* Its bytes, and which bits of them a write changes. */
struct pci_function {
	uint8_t bytes[PCI_CONFIG_SIZE];
	uint8_t writable[PCI_CONFIG_SIZE];
};

/* Makes F the configuration space that PF and VFs have in common: header, BARs (BAR 0 of MEMORY
 * bytes), power management, PCI Express, MSI-X with so many VECTORS. */
void pci_build(struct pci_function *f, uint32_t device, uint32_t vectors, uint64_t memory);
/* Sets a register of WIDTH bytes, little endian, and which of its bits can be written. */
void pci_register(struct pci_function *f, uint32_t at, uint32_t width, uint32_t value,
		  uint32_t writable);
/* Sets the BARs that start at AT: memory, doorbell, MSI-X, registers. */
void pci_bars(struct pci_function *f, uint32_t at, uint64_t memory);

/* Accesses of a client, within PCI_CONFIG_SIZE. */
void pci_read(const struct pci_function *f, uint32_t offset, void *data, uint32_t size);
void pci_write(struct pci_function *f, uint32_t offset, const void *data, uint32_t size);

#endif
