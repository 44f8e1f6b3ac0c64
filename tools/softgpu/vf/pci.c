/* SPDX-License-Identifier: MIT */
/*
 * Configuration spaces: what a function tells about itself, and which of its bits can be written.
 *
 *   0x40 power management  0x48 PCI Express  0x84 MSI-X
 */
#include <string.h>

#include "pci.h"
#include "softgpu/registers.h"

#define CAP_PM 0x40u
#define CAP_EXPRESS 0x48u
#define CAP_MSIX 0x84u

#define BAR_64BIT_PREFETCH 0xcu

static void put_bytes(uint8_t *bytes, uint32_t at, uint32_t width, uint64_t value)
{
	memcpy(bytes + at, &value, width); /* little endian, like PCI */
}

void pci_register(struct pci_function *f, uint32_t at, uint32_t width, uint32_t value,
		  uint32_t writable)
{
	put_bytes(f->bytes, at, width, value);
	put_bytes(f->writable, at, width, writable);
}

/* The bits of a BAR above its size can be written, so that software can find its size. */
static void bar(struct pci_function *f, uint32_t at, uint64_t size, uint32_t flags)
{
	uint64_t mask = ~(size - 1);

	pci_register(f, at, 4, flags, (uint32_t)mask);
	if (flags & 4)
		pci_register(f, at + 4, 4, 0, (uint32_t)(mask >> 32));
}

static uint64_t power_of_two(uint64_t size)
{
	uint64_t p = 4096;

	while (p < size)
		p <<= 1;
	return p;
}

/* Four BARs: memory, doorbell, MSI-X, registers. */
void pci_bars(struct pci_function *f, uint32_t at, uint64_t memory)
{
	bar(f, at, power_of_two(memory), BAR_64BIT_PREFETCH);
	bar(f, at + 0x08, BAR2_SIZE, BAR_64BIT_PREFETCH);
	bar(f, at + 0x10, BAR4_SIZE, 0);
	bar(f, at + 0x14, BAR5_SIZE, 0);
}

void pci_build(struct pci_function *f, uint32_t device, uint32_t vectors, uint64_t memory)
{
	memset(f, 0, sizeof(*f));
	pci_register(f, 0x00, 2, SOFTGPU_VENDOR, 0);
	pci_register(f, 0x02, 2, device, 0);
	pci_register(f, 0x04, 2, 0,
		     0x0507); /* command: I/O, memory, master, parity, SERR, INTx off */
	pci_register(f, 0x06, 2, 0x0010, 0); /* status: has capabilities */
	pci_register(f, 0x08, 1, 1, 0);
	pci_register(f, 0x09, 1, 0x00, 0);
	pci_register(f, 0x0a, 2, 0x0380, 0); /* display controller, other */
	pci_register(f, 0x0c, 1, 0, 0xff);
	pci_bars(f, 0x10, memory);
	pci_register(f, 0x2c, 2, SOFTGPU_VENDOR, 0);
	pci_register(f, 0x2e, 2, 1, 0);
	pci_register(f, 0x34, 1, CAP_PM, 0);
	pci_register(f, 0x3c, 1, 0, 0xff);

	pci_register(f, CAP_PM, 2, CAP_EXPRESS << 8 | 0x01, 0);
	pci_register(f, CAP_PM + 2, 2, 0x0003, 0);	/* version 3; no states but D0 and D3hot */
	pci_register(f, CAP_PM + 4, 2, 0x0008, 0x0003); /* no soft reset */

	pci_register(f, CAP_EXPRESS, 2, CAP_MSIX << 8 | 0x10, 0);
	pci_register(f, CAP_EXPRESS + 2, 2, 0x0002, 0); /* endpoint, version 2 */
	pci_register(f, CAP_EXPRESS + 4, 4, 0x10008002,
		     0); /* role-based errors, 512 bytes, can do FLR */
	pci_register(f, CAP_EXPRESS + 8, 2, 0x2810, 0xffff);
	pci_register(f, CAP_EXPRESS + 12, 4, 0x00000103, 0); /* 8 GT/s, x16 */
	pci_register(f, CAP_EXPRESS + 18, 2, 0x0103, 0);

	pci_register(f, CAP_MSIX, 2, 0x00 << 8 | 0x11, 0);
	pci_register(f, CAP_MSIX + 2, 2, vectors - 1, 0xc000);
	pci_register(f, CAP_MSIX + 4, 4, 0x000 | 4, 0); /* table: BAR 4, 0 */
	pci_register(f, CAP_MSIX + 8, 4, 0x800 | 4, 0); /* pending bits: BAR 4, 0x800 */
}

void pci_read(const struct pci_function *f, uint32_t offset, void *data, uint32_t size)
{
	memcpy(data, f->bytes + offset, size);
}

void pci_write(struct pci_function *f, uint32_t offset, const void *data, uint32_t size)
{
	const uint8_t *from = data;
	uint32_t i;

	for (i = 0; i < size; i++) {
		uint8_t mask = f->writable[offset + i];

		f->bytes[offset + i] = (uint8_t)((f->bytes[offset + i] & ~mask) | (from[i] & mask));
	}
}
