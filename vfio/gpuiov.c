/* SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <string.h>

#include "vfio/gpuiov.h"

/* Registers whose place a layout does not define: softgpu has them in BAR 5, below 0x1000. */
#define OWN(n)                                                                                     \
	{                                                                                          \
		GPUIOV_MMIO, 0x0440u + 4u * (n)                                                    \
	}
#define MMIO(dword)                                                                                \
	{                                                                                          \
		GPUIOV_MMIO, 4u * (dword)                                                          \
	}
#define CAP(offset)                                                                                \
	{                                                                                          \
		GPUIOV_CAP, offset                                                                 \
	}
#define BLOCK(offset)                                                                              \
	{                                                                                          \
		GPUIOV_BLOCK, offset                                                               \
	}

#define NAVI_REGISTERS                                                                             \
	[GPUIOV_INTR_ENABLE] = CAP(0x0c), [GPUIOV_INTR_STATUS] = CAP(0x10),                        \
	[GPUIOV_RESET_CONTROL] = CAP(0x14), [GPUIOV_HVVM_DW0] = CAP(0x18),                         \
	[GPUIOV_HVVM_DW1] = CAP(0x1c), [GPUIOV_HVVM_DW2] = CAP(0x20),                              \
	[GPUIOV_CONTEXT] = CAP(0x24), [GPUIOV_FB_AVAILABLE] = CAP(0x28),                           \
	[GPUIOV_FB_CONSUMED] = CAP(0x2a), [GPUIOV_FB_TABLE] = CAP(0x38),                           \
	[GPUIOV_CMD] = BLOCK(0x04), [GPUIOV_CMD_STATUS] = BLOCK(0x08),                             \
	[GPUIOV_VM_BUSY] = BLOCK(0x0c), [GPUIOV_ACTIVE_FCN] = BLOCK(0x14),                         \
	[GPUIOV_RESET_NOTIFICATION] = OWN(0), [GPUIOV_IH_PENDING] = OWN(1),                        \
	[GPUIOV_VM_INIT] = OWN(2), [GPUIOV_VF_RESET_REQ] = OWN(3),                                 \
	[GPUIOV_GATE_REGISTERS] = MMIO(0x0e44), [GPUIOV_GATE_DOORBELL] = MMIO(0x0e45),             \
	[GPUIOV_GATE_MEMORY] = MMIO(0x0e46), [GPUIOV_MBOX_INDEX] = MMIO(0x0e55),                   \
	[GPUIOV_MBOX_TRN] = MMIO(0x0e56), [GPUIOV_MBOX_RCV] = MMIO(0x0e5a),                        \
	[GPUIOV_MBOX_CONTROL] = MMIO(0x0e5e), [GPUIOV_MBOX_INT] = MMIO(0x0e5f)

const struct gpuiov_layout gpuiov_layout_navi = {
	.name = "navi",
	.at = {NAVI_REGISTERS},
	.block_pointer = 0x2e,
	.cap_length = 0x220,
	.max_vfs = GPUIOV_MOST_VFS,
};

/* softgpu's own layout: the newer one, with the extensions that FEATURES lists. */
const struct gpuiov_layout gpuiov_layout_soft = {
	.name = "soft",
	.at = {NAVI_REGISTERS, [GPUIOV_FEATURES] = CAP(0x220)},
	.block_pointer = 0x2e,
	.cap_length = 0x224,
	.max_vfs = GPUIOV_MOST_VFS,
};

const struct gpuiov_layout gpuiov_layout_tonga = {
	.name = "tonga",
	.at =
		{
			[GPUIOV_RESET_CONTROL] = CAP(0x14),
			[GPUIOV_RESET_NOTIFICATION] = CAP(0x18),
			[GPUIOV_VM_INIT] = CAP(0x1c),
			[GPUIOV_CONTEXT] = CAP(0x20),
			[GPUIOV_FB_AVAILABLE] = CAP(0x24),
			[GPUIOV_FB_CONSUMED] = CAP(0x26),
			[GPUIOV_FB_TABLE] = CAP(0x2c),
			[GPUIOV_CMD] = CAP(0x0c),
			[GPUIOV_CMD_STATUS] = CAP(0x10),
			[GPUIOV_IH_PENDING] = OWN(1),
			[GPUIOV_VM_BUSY] = MMIO(0xfb08),
			[GPUIOV_ACTIVE_FCN] = MMIO(0xfb21),
			[GPUIOV_VF_RESET_REQ] = MMIO(0xfb4c),
			[GPUIOV_GATE_REGISTERS] = OWN(4),
			[GPUIOV_GATE_DOORBELL] = OWN(5),
			[GPUIOV_GATE_MEMORY] = OWN(6),
			[GPUIOV_MBOX_INDEX] = MMIO(0x14c6),
			[GPUIOV_MBOX_TRN] = MMIO(0x14c8),
			[GPUIOV_MBOX_RCV] = MMIO(0x14cc),
			[GPUIOV_MBOX_CONTROL] = MMIO(0x14d0),
			[GPUIOV_MBOX_INT] = MMIO(0x14d1),
		},
	.cap_length = 0x6c,
	.max_vfs = 16,
	.fb_size_bias = 1,
	.status_hang = GPUIOV_STATUS_GFX_HANG,
};

const struct gpuiov_layout *const gpuiov_layouts[] = {&gpuiov_layout_navi, &gpuiov_layout_tonga,
						      &gpuiov_layout_soft, NULL};

const struct gpuiov_layout *gpuiov_layout_by_name(const char *name)
{
	uint32_t i;

	for (i = 0; gpuiov_layouts[i]; i++)
		if (strcmp(name, gpuiov_layouts[i]->name) == 0)
			return gpuiov_layouts[i];
	return NULL;
}
