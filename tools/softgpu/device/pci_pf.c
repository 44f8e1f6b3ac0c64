/* SPDX-License-Identifier: MIT */
/*
 * The PF's configuration space. It begins with what the PF and VFs have in common (vf/pci.c), and
 * then has:
 *
 *   0x100 vendor capability of another kind (a decoy)  0x330 SR-IOV  0x400 GPU-IOV
 */
#include <string.h>

#include "gpu.h"

#define CAP_DECOY 0x100u
#define CAP_SRIOV 0x330u
#define CAP_GPUIOV 0x400u
#define BLOCK_AT 0x150u /* offset of the scheduler block from CAP_GPUIOV; drivers must read it */

static void ext_cap(struct pci_function *f, uint32_t at, uint32_t id, uint32_t next)
{
	pci_register(f, at, 4, id | 1u << 16 | next << 20, 0);
}

void pci_build_pf(struct softgpu *gpu)
{
	const struct gpuiov_layout *layout = gpu->layout;
	struct pci_function *f = &gpu->pf;
	uint32_t n = gpu->config.n_vfs, at;

	pci_build(f, SOFTGPU_DEVICE_PF, GPUIOV_PF_VECTORS, gpu->config.vram);
	ext_cap(f, CAP_DECOY, PCI_EXT_CAP_VENDOR, CAP_SRIOV);
	pci_register(f, CAP_DECOY + 4, 4, 0x0001 | 1u << 16 | 0x18u << 20, 0);

	ext_cap(f, CAP_SRIOV, PCI_EXT_CAP_SRIOV, CAP_GPUIOV);
	pci_register(f, CAP_SRIOV + SRIOV_CTRL, 2, 0, SRIOV_CTRL_VF_ENABLE | SRIOV_CTRL_MSE);
	pci_register(f, CAP_SRIOV + SRIOV_INITIAL_VFS, 2, n, 0);
	pci_register(f, CAP_SRIOV + SRIOV_TOTAL_VFS, 2, n, 0);
	pci_register(f, CAP_SRIOV + SRIOV_NUM_VFS, 2, 0, 0xffff);
	pci_register(f, CAP_SRIOV + 0x14, 2, 1, 0); /* first VF offset */
	pci_register(f, CAP_SRIOV + 0x16, 2, 1, 0); /* stride */
	pci_register(f, CAP_SRIOV + 0x1a, 2, SOFTGPU_DEVICE_VF, 0);
	pci_register(f, CAP_SRIOV + 0x1c, 4, 0x553,
		     0); /* page sizes: 4 KiB to 4 MiB, as on hardware */
	pci_register(f, CAP_SRIOV + 0x20, 4, 1, 0xffffffff);
	pci_bars(f, CAP_SRIOV + 0x24, gpu->config.vram);

	ext_cap(f, CAP_GPUIOV, PCI_EXT_CAP_VENDOR, 0);
	pci_register(f, CAP_GPUIOV + 4, 4, GPUIOV_VSEC_ID | 1u << 16 | layout->cap_length << 20, 0);
	gpu->sriov = CAP_SRIOV;
	gpu->cap = CAP_GPUIOV;
	gpu->block = CAP_GPUIOV;
	if (layout->block_pointer) {
		gpu->block = CAP_GPUIOV + BLOCK_AT;
		pci_register(f, CAP_GPUIOV + layout->block_pointer, 1, BLOCK_AT >> 4, 0);
	}
	at = gpu->cap + layout->at[GPUIOV_FB_TABLE].offset;
	memset(f->writable + at, 0xff, 4 * n);
	at = gpu->cap + layout->at[GPUIOV_FB_CONSUMED].offset;
	memset(f->writable + at, 0xff, 2);
}
