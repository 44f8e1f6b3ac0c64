/* SPDX-License-Identifier: MIT */
/*
 * Configuration spaces: what a function says of itself, and which of its bits can be written.
 *
 *   0x40 power management  0x48 PCI Express  0x84 MSI-X
 *   0x100 vendor capability of another kind (a decoy)  [PF: 0x330 SR-IOV  0x400 GPU-IOV]
 */
#include <string.h>

#include "gpu.h"

#define CAP_PM 0x40u
#define CAP_EXPRESS 0x48u
#define CAP_MSIX 0x84u
#define CAP_DECOY 0x100u
#define CAP_SRIOV 0x330u
#define CAP_GPUIOV 0x400u
#define BLOCK_AT 0x150u /* of the scheduler block, from GPU-IOV; wherever, the byte says so */

/* Numbers that no maker uses; see docs/softgpu.md. */
#define VENDOR 0x1234u
#define DEVICE_PF 0x5347u
#define DEVICE_VF 0x5348u

#define BAR_64BIT_PREFETCH 0xcu

static void put(uint8_t *bytes, uint32_t at, uint32_t width, uint64_t value)
{
	memcpy(bytes + at, &value, width); /* little endian, like PCI */
}

static void reg(struct pci_function *f, uint32_t at, uint32_t width, uint32_t value,
		uint32_t writable)
{
	put(f->bytes, at, width, value);
	put(f->writable, at, width, writable);
}

/* A BAR can be written above its size, so that it can be sized. */
static void bar(struct pci_function *f, uint32_t at, uint64_t size, uint32_t flags)
{
	uint64_t mask = ~(size - 1);

	reg(f, at, 4, flags, (uint32_t)mask);
	if (flags & 4)
		reg(f, at + 4, 4, 0, (uint32_t)(mask >> 32));
}

static uint64_t power_of_two(uint64_t size)
{
	uint64_t p = 4096;

	while (p < size)
		p <<= 1;
	return p;
}

/* Four sets of registers stand in four BARs: memory, doorbell, MSI-X, registers. */
static void bars(struct pci_function *f, uint32_t at, uint64_t memory)
{
	bar(f, at, power_of_two(memory), BAR_64BIT_PREFETCH);
	bar(f, at + 0x08, BAR2_SIZE, BAR_64BIT_PREFETCH);
	bar(f, at + 0x10, BAR4_SIZE, 0);
	bar(f, at + 0x14, BAR5_SIZE, 0);
}

static void common(struct pci_function *f, uint32_t device, uint32_t vectors, uint64_t memory)
{
	memset(f, 0, sizeof(*f));
	reg(f, 0x00, 2, VENDOR, 0);
	reg(f, 0x02, 2, device, 0);
	reg(f, 0x04, 2, 0, 0x0507); /* command: I/O, memory, master, parity, SERR, INTx off */
	reg(f, 0x06, 2, 0x0010, 0); /* status: has capabilities */
	reg(f, 0x08, 1, 1, 0);
	reg(f, 0x09, 1, 0x00, 0);
	reg(f, 0x0a, 2, 0x0380, 0); /* display controller, other */
	reg(f, 0x0c, 1, 0, 0xff);
	bars(f, 0x10, memory);
	reg(f, 0x2c, 2, VENDOR, 0);
	reg(f, 0x2e, 2, 1, 0);
	reg(f, 0x34, 1, CAP_PM, 0);
	reg(f, 0x3c, 1, 0, 0xff);

	reg(f, CAP_PM, 2, CAP_EXPRESS << 8 | 0x01, 0);
	reg(f, CAP_PM + 2, 2, 0x0003, 0);      /* version 3; no states but D0 and D3hot */
	reg(f, CAP_PM + 4, 2, 0x0008, 0x0003); /* no soft reset */

	reg(f, CAP_EXPRESS, 2, CAP_MSIX << 8 | 0x10, 0);
	reg(f, CAP_EXPRESS + 2, 2, 0x0002, 0);	   /* endpoint, version 2 */
	reg(f, CAP_EXPRESS + 4, 4, 0x10008002, 0); /* role-based errors, 512 bytes, can do FLR */
	reg(f, CAP_EXPRESS + 8, 2, 0x2810, 0xffff);
	reg(f, CAP_EXPRESS + 12, 4, 0x00000103, 0); /* 8 GT/s, x16 */
	reg(f, CAP_EXPRESS + 18, 2, 0x0103, 0);

	reg(f, CAP_MSIX, 2, 0x00 << 8 | 0x11, 0);
	reg(f, CAP_MSIX + 2, 2, vectors - 1, 0xc000);
	reg(f, CAP_MSIX + 4, 4, 0x000 | 4, 0); /* table: BAR 4, 0 */
	reg(f, CAP_MSIX + 8, 4, 0x800 | 4, 0); /* pending bits: BAR 4, 0x800 */
}

static void ext_cap(struct pci_function *f, uint32_t at, uint32_t id, uint32_t next)
{
	reg(f, at, 4, id | 1u << 16 | next << 20, 0);
}

void pci_build_pf(struct softgpu *gpu)
{
	const struct gpuiov_layout *layout = gpu->layout;
	struct pci_function *f = &gpu->pf;
	uint32_t n = gpu->config.n_vfs, at;

	common(f, DEVICE_PF, GPUIOV_PF_VECTORS, gpu->config.vram);
	ext_cap(f, CAP_DECOY, PCI_EXT_CAP_VENDOR, CAP_SRIOV);
	reg(f, CAP_DECOY + 4, 4, 0x0001 | 1u << 16 | 0x18u << 20, 0);

	ext_cap(f, CAP_SRIOV, PCI_EXT_CAP_SRIOV, CAP_GPUIOV);
	reg(f, CAP_SRIOV + SRIOV_CTRL, 2, 0, SRIOV_CTRL_VF_ENABLE | SRIOV_CTRL_MSE);
	reg(f, CAP_SRIOV + SRIOV_INITIAL_VFS, 2, n, 0);
	reg(f, CAP_SRIOV + SRIOV_TOTAL_VFS, 2, n, 0);
	reg(f, CAP_SRIOV + SRIOV_NUM_VFS, 2, 0, 0xffff);
	reg(f, CAP_SRIOV + 0x14, 2, 1, 0); /* first VF offset */
	reg(f, CAP_SRIOV + 0x16, 2, 1, 0); /* stride */
	reg(f, CAP_SRIOV + 0x1a, 2, DEVICE_VF, 0);
	reg(f, CAP_SRIOV + 0x1c, 4, 0x553, 0); /* page sizes: 4 KiB to 4 MiB, as hardware has */
	reg(f, CAP_SRIOV + 0x20, 4, 1, 0xffffffff);
	bars(f, CAP_SRIOV + 0x24, gpu->config.vram);

	ext_cap(f, CAP_GPUIOV, PCI_EXT_CAP_VENDOR, 0);
	reg(f, CAP_GPUIOV + 4, 4, GPUIOV_VSEC_ID | 1u << 16 | layout->cap_length << 20, 0);
	gpu->sriov = CAP_SRIOV;
	gpu->cap = CAP_GPUIOV;
	gpu->block = CAP_GPUIOV;
	if (layout->block_pointer) {
		gpu->block = CAP_GPUIOV + BLOCK_AT;
		reg(f, CAP_GPUIOV + layout->block_pointer, 1, BLOCK_AT >> 4, 0);
	}
	at = gpu->cap + layout->at[GPUIOV_FB_TABLE].offset;
	memset(f->writable + at, 0xff, 4 * n);
	at = gpu->cap + layout->at[GPUIOV_FB_CONSUMED].offset;
	memset(f->writable + at, 0xff, 2);
}

void pci_build_vf(struct softgpu *gpu, struct vf *vf)
{
	common(&vf->pci, DEVICE_VF, SOFTGPU_VF_VECTORS, gpu->config.vram);
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
