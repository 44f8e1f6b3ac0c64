/* SPDX-License-Identifier: MIT */
/*
 * GPU-IOV, the vendor capability by which AMD's SR-IOV GPUs are world-switched: the place of each
 * register in both published layouts. The device model and the driver use the same tables. Sources:
 * AMD's GIM 3.0 (the older layout, "Tonga") and libgv (the newer one, as on Navi 32), both under
 * MIT. softgpu's additions are marked; docs/softgpu-interface.md describes them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PCI_EXT_CAP_VENDOR 0x000bu
#define PCI_EXT_CAP_SRIOV 0x0010u
#define GPUIOV_VSEC_ID 0x0002u

/* SR-IOV capability, offsets */
#define SRIOV_CTRL 0x08u
#define SRIOV_CTRL_VF_ENABLE 1u
#define SRIOV_CTRL_MSE 8u
#define SRIOV_INITIAL_VFS 0x0cu
#define SRIOV_TOTAL_VFS 0x0eu
#define SRIOV_NUM_VFS 0x10u
#define SRIOV_SIZE 0x40u

enum gpuiov_space {
	GPUIOV_NOWHERE = 0, /* this layout has no such register */
	GPUIOV_CAP,	    /* configuration space, from the capability */
	GPUIOV_BLOCK,	    /* configuration space, from the engine's scheduler block */
	GPUIOV_MMIO,	    /* BAR 5 */
};

enum gpuiov_register {
	GPUIOV_INTR_ENABLE = 0,
	GPUIOV_INTR_STATUS, /* write 1 to clear */
	GPUIOV_RESET_CONTROL,
	GPUIOV_CONTEXT,
	GPUIOV_FB_AVAILABLE, /* MiB, 16 bits */
	GPUIOV_FB_CONSUMED,  /* MiB, 16 bits */
	GPUIOV_FB_TABLE,     /* 32 bits per VF */
	GPUIOV_CMD,
	GPUIOV_CMD_STATUS,
	GPUIOV_VM_BUSY,
	GPUIOV_ACTIVE_FCN,	   /* function id [7:0], status [11:8] */
	GPUIOV_RESET_NOTIFICATION, /* write 1 to clear */
	GPUIOV_VM_INIT,		   /* bitmap of the VFs with a context */
	GPUIOV_VF_RESET_REQ,	   /* write 1 to reset a VF; reads 1 until the reset is done */
	GPUIOV_GATE_REGISTERS,
	GPUIOV_GATE_DOORBELL,
	GPUIOV_GATE_MEMORY,
	GPUIOV_MBOX_INDEX,
	GPUIOV_MBOX_TRN, /* four dwords */
	GPUIOV_MBOX_RCV, /* four dwords */
	GPUIOV_MBOX_CONTROL,
	GPUIOV_MBOX_INT,
	GPUIOV_HVVM_DW0, /* the engine's own mailbox: four bits from each VF's scheduler */
	GPUIOV_HVVM_DW1, /* VFs 0-15: bit 2n: the VF has taken our message; bit 2n + 1: it has sent
			  * one */
	GPUIOV_HVVM_DW2, /* VFs 16-30 */
	GPUIOV_FEATURES, /* softgpu: its extensions to the published layouts */
	GPUIOV_IH_PENDING, /* softgpu: VFs that have sent a message (hardware: in the interrupt
			    * ring) */
	GPUIOV_REGISTERS,
};

struct gpuiov_location {
	enum gpuiov_space space;
	uint32_t offset; /* bytes */
};

/* The largest number of VFs in all published layouts. */
#define GPUIOV_MOST_VFS 31u

struct gpuiov_layout {
	const char *name;
	struct gpuiov_location at[GPUIOV_REGISTERS];
	uint32_t
		block_pointer; /* in the capability: a byte, the block's offset / 16; 0: no block */
	uint32_t cap_length;
	uint32_t max_vfs;      /* at most GPUIOV_MOST_VFS */
	uint32_t fb_size_bias; /* subtracted from the size field */
	uint32_t status_hang;  /* CMD_STATUS after a hang; 0: a hung command never ends */
};

extern const struct gpuiov_layout gpuiov_layout_navi;
extern const struct gpuiov_layout gpuiov_layout_tonga;
extern const struct gpuiov_layout gpuiov_layout_soft;
extern const struct gpuiov_layout *const gpuiov_layouts[]; /* all; NULL-terminated */

/* Returns the layout called NAME ("navi", "tonga", "soft"), or NULL. */
const struct gpuiov_layout *gpuiov_layout_by_name(const char *name);

/* Function ids in commands. */
#define GPUIOV_FCN_PF 0x00u
#define GPUIOV_FCN_VF(n) (0x80u | (n))
#define GPUIOV_FCN_IS_VF(id) (((id)&0x80u) != 0)
#define GPUIOV_FCN_VF_OF(id) ((id)&0x1fu)

/* The command dword: type | execute | function << 8 | next function << 16. */
enum gpuiov_command {
	GPUIOV_CMD_IDLE = 1,
	GPUIOV_CMD_SAVE = 2,
	GPUIOV_CMD_LOAD = 3,
	GPUIOV_CMD_RUN = 4,
	GPUIOV_CMD_ENABLE_AUTO = 6, /* the GPU schedules its VFs itself */
	GPUIOV_CMD_INIT = 7,
	GPUIOV_CMD_DISABLE_AUTO = 0xb,
	GPUIOV_CMD_SHUTDOWN = 0xd,
	GPUIOV_CMD_CONFIG_AUTO = 0xf, /* activates a plan of turns */
};
#define GPUIOV_CMD_TYPE 0x0fu
#define GPUIOV_CMD_EXECUTE 0x10u
#define GPUIOV_CMD_EXECUTE_INTR 0x20u

enum gpuiov_status {
	GPUIOV_STATUS_DONE = 0,
	GPUIOV_STATUS_UNSUPPORTED = 1,
	GPUIOV_STATUS_ABORTED = 2,
	GPUIOV_STATUS_GFX_HANG = 0x0e,
	GPUIOV_STATUS_IDLING = 0x11,
	GPUIOV_STATUS_SAVING = 0x12,
	GPUIOV_STATUS_LOADING = 0x13,
	GPUIOV_STATUS_ENABLING = 0x14,
	GPUIOV_STATUS_INITING = 0x15,
};

/* ACTIVE_FCN, status field */
enum gpuiov_active {
	GPUIOV_ACTIVE_IDLE = 0, /* stopped, or no function is loaded */
	GPUIOV_ACTIVE_RUNNING = 1,
	GPUIOV_ACTIVE_IDLING = 2,
	GPUIOV_ACTIVE_SAVING = 3,
	GPUIOV_ACTIVE_LOADED = 4, /* loaded, but not running yet */
	GPUIOV_ACTIVE_STALLED = 5,
};

#define GPUIOV_INTR_CMD_COMPLETE (1u << 0)
#define GPUIOV_INTR_NEED_FLR (1u << 2)
#define GPUIOV_INTR_BUSY (1u << 3)
#define GPUIOV_INTR_HVVM_RCV (1u << 25)

/* HVVM_DW0 */
#define GPUIOV_HVVM_VF 0xffu
#define GPUIOV_HVVM_RCV_DATA(v) ((v) >> 16 & 0xfu)
#define GPUIOV_HVVM_RCV_ACK (1u << 24)
#define GPUIOV_HVVM_CTX_EMPTY 1u

/* CONTEXT: size [6:0] and offset [31:10] in units of 256 KiB */
#define GPUIOV_CONTEXT_UNIT (256u << 10)
#define GPUIOV_CONTEXT_SIZE(v) ((uint64_t)((v)&0x7fu) * GPUIOV_CONTEXT_UNIT)
#define GPUIOV_CONTEXT_OFFSET(v) ((uint64_t)((v) >> 10) * GPUIOV_CONTEXT_UNIT)

#define GPUIOV_FB_UNIT (16u << 20)
#define GPUIOV_RESET_PF 1u

/* Mailbox control, as seen by the side that reads it */
#define GPUIOV_MBOX_TRN_VALID (1u << 0)
#define GPUIOV_MBOX_TRN_ACK (1u << 1)
#define GPUIOV_MBOX_RCV_VALID (1u << 8)
#define GPUIOV_MBOX_RCV_ACK (1u << 9)
#define GPUIOV_MBOX_INT_VALID 1u
#define GPUIOV_MBOX_INT_ACK 2u

enum gpuiov_request { /* VF to PF */
		      GPUIOV_REQ_INIT = 1,
		      GPUIOV_REL_INIT = 2,
		      GPUIOV_REQ_FINI = 3,
		      GPUIOV_REL_FINI = 4,
		      GPUIOV_REQ_RESET = 5,
};

enum gpuiov_notice { /* PF to VF */
		     GPUIOV_CLEAR = 0,
		     GPUIOV_READY = 1,
		     GPUIOV_FLR = 2,
		     GPUIOV_FLR_DONE = 3,
		     GPUIOV_SUCCESS = 4,
		     GPUIOV_FAIL = 5,
};
