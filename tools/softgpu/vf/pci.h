/* SPDX-License-Identifier: MIT */
/* The configuration space of a function: of the PF in the device, of a VF in its process. */
#pragma once

#include <stdint.h>

#define PCI_CONFIG_SIZE 4096u
#define BAR5_SIZE 0x40000u
#define BAR2_SIZE 0x1000u
#define BAR4_SIZE 0x1000u /* MSI-X table and pending bits */

/* The bytes of a configuration space, and which bits of them a write changes. */
struct pci_function {
	uint8_t bytes[PCI_CONFIG_SIZE];
	uint8_t writable[PCI_CONFIG_SIZE];
};

/* Writes to F what the configuration spaces of the PF and of VFs have in common: header, BARs (BAR
 * 0 has MEMORY bytes), power management, PCI Express, MSI-X with VECTORS vectors. */
void pci_build(struct pci_function *f, uint32_t device, uint32_t vectors, uint64_t memory);
/* Sets a register of WIDTH bytes, little endian, and the bits of it that can be written. */
void pci_register(struct pci_function *f, uint32_t at, uint32_t width, uint32_t value,
		  uint32_t writable);
/* Sets the BARs that start at AT: memory, doorbell, MSI-X, registers. */
void pci_bars(struct pci_function *f, uint32_t at, uint64_t memory);

/* A client's accesses; OFFSET + SIZE is at most PCI_CONFIG_SIZE. */
void pci_read(const struct pci_function *f, uint32_t offset, void *data, uint32_t size);
void pci_write(struct pci_function *f, uint32_t offset, const void *data, uint32_t size);
