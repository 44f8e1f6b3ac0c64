/* SPDX-License-Identifier: MIT */
/*
 * GPU-IOV, the vendor capability by which AMD's SR-IOV GPUs are world-switched: the place of each
 * register in both published layouts. The device model and the driver use the same tables. Sources:
 * AMD's GIM 3.0 (the older layout, "Tonga") and libgv (the newer one, as on Navi 32), both under
 * MIT. softgpu's additions are marked; docs/softgpu.md describes them.
 */
#ifndef VFIO_GPUIOV_H
#define VFIO_GPUIOV_H

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
	GPUIOV_VM_INIT,		   /* which VFs have a context */
	GPUIOV_VF_RESET_REQ,	   /* write 1 to reset a VF; reads 1 while that goes on */
	GPUIOV_GATE_REGISTERS,
	GPUIOV_GATE_DOORBELL,
	GPUIOV_GATE_MEMORY,
	GPUIOV_MBOX_INDEX,
	GPUIOV_MBOX_TRN, /* four dwords */
	GPUIOV_MBOX_RCV, /* four dwords */
	GPUIOV_MBOX_CONTROL,
	GPUIOV_MBOX_INT,
	GPUIOV_HVVM_DW0, /* the engine's own mailbox: four bits from each VF's scheduler */
	GPUIOV_HVVM_DW1, /* VFs 0-15: bit 2n: our message was taken; bit 2n + 1: a message waits */
	GPUIOV_HVVM_DW2, /* VFs 16-30 */
	GPUIOV_FEATURES, /* softgpu: what it has beyond the published layouts */
	GPUIOV_IH_PENDING, /* softgpu: VFs whose message waits (hardware: the interrupt ring) */
	GPUIOV_REGISTERS,
};

struct gpuiov_location {
	enum gpuiov_space space;
	uint32_t offset; /* bytes */
};

/* The most VFs of every published layout. */
#define GPUIOV_MOST_VFS 31u

struct gpuiov_layout {
	const char *name;
	struct gpuiov_location at[GPUIOV_REGISTERS];
	uint32_t
		block_pointer; /* in the capability: a byte, the block's offset / 16; 0: no block */
	uint32_t cap_length;
	uint32_t max_vfs;      /* at most GPUIOV_MOST_VFS */
	uint32_t fb_size_bias; /* subtracted from the size field */
	uint32_t status_hang;  /* CMD_STATUS of a hang; 0: a hung command never ends */
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
	GPUIOV_CMD_CONFIG_AUTO = 0xf, /* puts a plan of turns into force */
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
	GPUIOV_ACTIVE_LOADED = 4, /* and not yet running */
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

/* Interrupt vectors of softgpu */
enum { GPUIOV_VECTOR_ENGINE = 0, GPUIOV_VECTOR_MAILBOX = 1, GPUIOV_PF_VECTORS = 2 };
/* softgpu's PCI functions. No manufacturer uses these numbers; see docs/softgpu.md. */
#define SOFTGPU_VENDOR 0x1234u
#define SOFTGPU_DEVICE_PF 0x5347u
#define SOFTGPU_DEVICE_VF 0x5348u

enum { SOFTGPU_VECTOR_FENCE = 0, SOFTGPU_VECTOR_MAILBOX = 1, SOFTGPU_VF_VECTORS = 2 };

/* FEATURES */
#define SOFTGPU_TAKES_CHAINS (1u << 0)
#define SOFTGPU_SHOWS (1u << 1)	    /* the PF's BAR 2 is a status page */
#define SOFTGPU_SCHEDULES (1u << 2) /* it schedules its VFs itself, by a plan of turns */

/* The words of the status page. The first one is odd while the others are being written. */
enum softgpu_shows {
	SOFTGPU_SHOWS_SEQUENCE = 0,
	SOFTGPU_SHOWS_TAKEN,  /* commands and chains that were written since softgpu's start */
	SOFTGPU_SHOWS_STATUS, /* CMD_STATUS */
	SOFTGPU_SHOWS_BUSY,   /* VM_BUSY */
	SOFTGPU_SHOWS_CHAIN,  /* SOFTGPU_CHAIN_STATUS */
	SOFTGPU_SHOWS_TOOK,   /* SOFTGPU_CHAIN_TOOK, three words */
	SOFTGPU_STATUS_WORDS = SOFTGPU_SHOWS_TOOK + 3,
};

/* softgpu's own registers in the PF's BAR 5, bytes */
#define SOFTGPU_ID 0x0400u /* reads 'SGPU' */
#define SOFTGPU_ID_VALUE 0x55504753u
#define SOFTGPU_FILL_OFFSET 0x0408u /* 64 bits: where to clear, or copy to, in GPU memory */
#define SOFTGPU_FILL_SIZE 0x0410u   /* 64 bits */
#define SOFTGPU_FILL_CTRL                                                                          \
	0x0418u /* write 1: clear, 2: copy; bit 0 busy, bit 1 the last one failed */
#define SOFTGPU_FILL_START 1u
#define SOFTGPU_COPY_START 2u /* to FILL_OFFSET, from COPY_FROM, FILL_SIZE bytes */
#define SOFTGPU_VIOLATORS                                                                          \
	0x0438u /* VFs that accessed memory outside their partition; write 1 to clear */
#define SOFTGPU_VIOLATIONS 0x043cu /* how often */
#define SOFTGPU_COPY_FROM 0x0430u  /* 64 bits */
/* The aperture: addresses after the end of GPU memory are host memory, from this bus address. */
#define SOFTGPU_HOST_BASE 0x0460u /* 64 bits */
#define SOFTGPU_HOST_SIZE 0x0468u /* 64 bits; 0: there is none */
#define SOFTGPU_FILL_BUSY 1u
#define SOFTGPU_FILL_FAILED 2u
/* How a VF is stopped: level [3:0], as tested at start; then the time it takes in nanoseconds,
 * median and longest measured; and the part of the GPU that the work of a VF has while it is
 * stopped and another one runs, in millionths: not 0 for SOFT alone. */
#define SOFTGPU_PREEMPT_LEVEL 0x0470u /* enum softgpu_preempt */
#define SOFTGPU_PREEMPT_TYPICAL 0x0474u
#define SOFTGPU_PREEMPT_LONGEST 0x0478u
#define SOFTGPU_PREEMPT_LEAK 0x047cu
enum softgpu_preempt {
	SOFTGPU_PREEMPT_TILE = 0,  /* waits for the end of short work items */
	SOFTGPU_PREEMPT_BLOCK = 1, /* blocks that have not begun are held back */
	SOFTGPU_PREEMPT_HARD = 2,  /* stops at any instruction; work resumes there */
	SOFTGPU_PREEMPT_KILL = 3,  /* kills work that does not stop, and resets its VF */
	SOFTGPU_PREEMPT_SOFT = 4,  /* does not stop: work goes on with the shortest time slice */
};
/* Commands that are done one after the other, each when the one before it is DONE: up to three
 * dwords as in CMD; then GO: their number, and GPUIOV_CMD_EXECUTE_INTR for one interrupt when all
 * are done or one has failed. */
#define SOFTGPU_CHAIN 0x0480u
#define SOFTGPU_CHAIN_LENGTH 3u
#define SOFTGPU_CHAIN_GO 0x048cu
/* How many are done [7:0]; CMD_STATUS of the one that is in progress, or has failed [15:8]; whether
 * one is in progress [31] */
#define SOFTGPU_CHAIN_STATUS 0x0490u
#define SOFTGPU_CHAIN_DONE(v) ((v)&0xffu)
#define SOFTGPU_CHAIN_CODE(v) ((v) >> 8 & 0xffu)
#define SOFTGPU_CHAIN_ACTIVE (1u << 31)
#define SOFTGPU_CHAIN_TOOK 0x0494u /* nanoseconds that each took */
/* The plan of turns, of GPUs that schedule themselves: for each VF quantum and time-out in
 * microseconds. Writes prepare a plan, which CONFIG_AUTO puts into force as a whole; reads give the
 * plan in force. */
#define SOFTGPU_TURN_PLAN 0x0500u
#define SOFTGPU_TURN_PLAN_OF(vf) (SOFTGPU_TURN_PLAN + 8u * (vf))
#define SOFTGPU_TURN_FLAGS 0x05f8u
#define SOFTGPU_TURN_KEEP 1u /* turns of VFs without work pass unused */
/* What a plan can hold, microseconds: quantum min, max, step; time-out min, max, step */
#define SOFTGPU_TURN_LIMITS 0x0600u
#define SOFTGPU_TURN_STATE 0x0618u /* bit 0: the GPU schedules */
#define SOFTGPU_TURN_UP 0x061cu	   /* VFs whose guest's driver is up */
/* Nanoseconds that each VF has spent on the engine, 64 bits. A read of the first dword takes all of
 * them at one instant; the others are read as of then. */
#define SOFTGPU_TURN_ACTIVE 0x0700u
/* Counts of each VF: turns begun, turns that it did not end in time, windows, windows that it did
 * not end in time */
#define SOFTGPU_TURN_COUNTS 0x0800u
#define SOFTGPU_TURN_COUNTS_OF(vf) (SOFTGPU_TURN_COUNTS + 16u * (vf))
#define SOFTGPU_HANG_INFO 0x0420u    /* the last hang: function id [7:0], command [15:8] */
#define SOFTGPU_FB_OVERLAP 0x0424u   /* VFs whose table entries overlap another entry */
#define SOFTGPU_DROPPED_CMDS 0x0428u /* commands written while one was in flight */
#define SOFTGPU_GATE_DROPS 0x042cu   /* VF accesses stopped by a gate */

/* A VF's BAR 5: a mailbox as the PF's, without an index; and its command ring */
#define SOFTGPU_RING_BASE 0x1000u   /* 64 bits: offset of the ring in VF memory, 64-byte aligned */
#define SOFTGPU_RING_SIZE 0x1008u   /* packets, a power of two, 2 to 65536 */
#define SOFTGPU_RING_RPTR 0x1010u   /* packets begun, read-only, 64 bits */
#define SOFTGPU_RING_WPTR 0x1018u   /* packets written, read-only: set by the doorbell, 64 bits */
#define SOFTGPU_FENCE_ADDR 0x1020u  /* 64 bits: offset in VF memory, 8-byte aligned */
#define SOFTGPU_STATUS 0x1028u	    /* enum softgpu_error */
#define SOFTGPU_ERROR_AT 0x1030u    /* the packet that failed, 64 bits */
#define SOFTGPU_MEMORY_SIZE 0x1038u /* bytes of the partition that BAR 0 shows, 64 bits */
/* 64 bits: bytes of the whole partition. With an NVIDIA GPU, BAR 0 shows only a window; the rest is
 * device memory that only packets can access. */
#define SOFTGPU_PARTITION_SIZE 0x1040u
#define SOFTGPU_FEATURES 0x1048u /* packets accepted beyond FAULT, enum softgpu_feature */
#define SOFTGPU_RAN 0x1050u	 /* 64 bits: nanoseconds for which packets were executed */
#define SOFTGPU_ABOUT_AT 0x1400u /* struct softgpu_about, without addresses; 0 without modules */
/* A VF's BAR 2: a write of 8 bytes at 0 is the doorbell, the new write pointer; one at 8, of any
 * value, the doorbell of all slots. */
#define SOFTGPU_DOORBELL 0x0u
#define SOFTGPU_SLOT_DOORBELL 0x8u

enum softgpu_error {
	SOFTGPU_OK = 0,
	SOFTGPU_BAD_OPCODE = 1,
	SOFTGPU_BAD_ARGUMENT = 2,
	SOFTGPU_OUT_OF_RANGE = 3,
	SOFTGPU_DMA_FAULT = 4,
	SOFTGPU_BAD_RING = 5,
	SOFTGPU_FAULTED = 6,
	SOFTGPU_BAD_MODULE = 7, /* does not compile; its log says why */
	SOFTGPU_BAD_LAUNCH = 8, /* no such function, or an invalid grid or arguments */
	SOFTGPU_BAD_MAP = 9,	/* the device has no memory for its page tables */
	SOFTGPU_NO_ROOM = 10,	/* the module does not fit into what is left for modules */
	SOFTGPU_OTHER_GPU = 11, /* the module has nothing for this GPU */
};

enum softgpu_feature {
	SOFTGPU_HAD_MODULES = 7, /* as below, with names of 255 bytes and 32 parameters */
	SOFTGPU_HAS_SLOTS = 8,	 /* SLOTS, and the doorbell of slots */
	SOFTGPU_HAS_ARENA = 16,	 /* ARENA, MAP and UNMAP */
	SOFTGPU_HAS_AWAIT = 32,	 /* AWAIT */
	/* MODULE_LOAD, MODULE_UNLOAD, LAUNCH, what is asked of modules, and the flag REPORT */
	SOFTGPU_HAS_MODULES = 64,
	SOFTGPU_HAS_IMAGES = 128, /* MODULE_LOAD of several images, and its flag CHECK */
	/* SOFTGPU_MAX_MODULES modules, and MODULE_UNLOAD's flag ALL; else there are 16 */
	SOFTGPU_HAS_MANY_MODULES = 256,
};

/* One packet of the command ring: 64 bytes */
struct softgpu_packet {
	uint32_t opcode, flags;
	uint64_t arg[7];
};

enum softgpu_opcode {
	SOFTGPU_NOP = 0,
	SOFTGPU_FILL = 1,	    /* dst, bytes, value */
	SOFTGPU_COPY = 2,	    /* dst, src, bytes */
	SOFTGPU_SAXPY = 3,	    /* y, x, n, a */
	SOFTGPU_GEMM = 4,	    /* c, a, b, m | n << 32, k */
	SOFTGPU_SHA256 = 5,	    /* dst, src, bytes */
	SOFTGPU_MANDELBROT = 6,	    /* dst, w | h << 32, x0, y0, step, iterations */
	SOFTGPU_FENCE = 7,	    /* value */
	SOFTGPU_DMA_IN = 8,	    /* dst, iova, bytes */
	SOFTGPU_DMA_OUT = 9,	    /* src, iova, bytes */
	SOFTGPU_UPLOAD = 10,	    /* dst, src in the window, bytes */
	SOFTGPU_DOWNLOAD = 11,	    /* dst in the window, src, bytes */
	SOFTGPU_MODULE_LOAD = 12,   /* module, image, bytes, log, bytes; flags: GATED, CHECK */
	SOFTGPU_MODULE_UNLOAD = 13, /* module; flag: ALL */
	SOFTGPU_LAUNCH = 14,	    /* module, struct softgpu_launch, bytes; flag: TOGETHER */
	SOFTGPU_EVENT = 15,	    /* dst in the window: nanoseconds, when all before it is done */
	SOFTGPU_FUNCTION = 16,	    /* module, struct softgpu_function, bytes */
	SOFTGPU_ABOUT = 17,	    /* 0, struct softgpu_about, bytes */
	SOFTGPU_SYMBOL = 18,	    /* module, struct softgpu_symbol, bytes */
	SOFTGPU_OCCUPANCY = 19,	    /* module, struct softgpu_occupancy, bytes */
	SOFTGPU_SYMBOL_COPY = 20,   /* module, struct softgpu_symbol_copy, bytes */
	SOFTGPU_SLOTS = 21,	    /* struct softgpu_slot in the window, number; not in a slot */
	SOFTGPU_ARENA = 22,	    /* 0, struct softgpu_arena, bytes */
	SOFTGPU_MAP = 23,	    /* dst in the arena, src in the memory, bytes */
	SOFTGPU_UNMAP = 24,	    /* dst in the arena, bytes */
	SOFTGPU_AWAIT = 25,	    /* slot, asked, fence; only in a slot */
	SOFTGPU_SPIN = 0x80,	    /* microseconds */
	SOFTGPU_NONPREEMPTIBLE = 0x81, /* microseconds */
	SOFTGPU_ENDLESS = 0x82,
	SOFTGPU_FAULT = 0x83,
	SOFTGPU_COUNT = 0x84, /* dst, n: counts 8 bytes up to n, once each 2 us */
};
#define SOFTGPU_FENCE_INTERRUPT 1u
/* Flag of MODULE_LOAD: the image is PTX whose blocks do not wait for each other, so that a grid can
 * be stopped between blocks and resumed later. */
#define SOFTGPU_MODULE_GATED 1u
/* Flag of MODULE_LOAD: nothing is loaded, and the module in its place stays. One image is compiled
 * by itself, for what is wrong with it: what it lacks may be in another. Several are linked. */
#define SOFTGPU_MODULE_CHECK 4u
/* The image of MODULE_LOAD may be several, which are linked to one module: this, then each of them,
 * at a multiple of 8 bytes. PTX ends with a zero byte. */
#define SOFTGPU_IMAGES 0x67616d69u
#define SOFTGPU_MAX_IMAGES 256u
struct softgpu_images {
	uint32_t magic, n;
	uint64_t bytes[SOFTGPU_MAX_IMAGES];
};
/* The numbers that a ring's modules may have. What the VF may have of memory for modules ends
 * before. */
#define SOFTGPU_MAX_MODULES 4096u
#define SOFTGPU_HAD_MAX_MODULES 16u /* without SOFTGPU_HAS_MANY_MODULES */
/* Flag of MODULE_UNLOAD: all modules of the ring, whichever is named. */
#define SOFTGPU_MODULE_ALL 1u
/* Flag of LAUNCH: the blocks wait for each other. All of them run at a time, or the launch is
 * wrong. */
#define SOFTGPU_LAUNCH_TOGETHER 1u
/* Flag of MODULE_LOAD, LAUNCH, SYMBOL_COPY and MAP: one that is wrong does not stop the VF. Its
 * enum softgpu_error is written to the 8 bytes at arg[6], in the window; if nothing is wrong,
 * nothing is written. */
#define SOFTGPU_REPORT 2u

/* The name of a function or a variable, and its end. Compilers make long ones: that of numba for
 * a function of nine arrays has more than 400, and the function 63 parameters. */
#define SOFTGPU_NAME_BYTES 1024u
/* The arguments of LAUNCH, in the window. */
#define SOFTGPU_MAX_LAUNCH_ARGS 96u
#define SOFTGPU_MAX_LAUNCH_BYTES 4096u /* of all arguments; CUDA's own limit before 12.1 */
enum softgpu_launch_kind {
	SOFTGPU_ARG_VALUE = 0,	/* the first BYTES of VALUE */
	SOFTGPU_ARG_BUFFER = 1, /* the address of BYTES bytes at VALUE in the partition */
	SOFTGPU_ARG_BYTES = 2,	/* BYTES bytes, copied from VALUE in the window */
};
struct softgpu_launch_arg {
	uint32_t kind, pad;
	uint64_t value, bytes;
};
struct softgpu_launch {
	uint32_t grid[3], block[3];
	uint32_t shared; /* bytes of dynamic shared memory for each block */
	uint32_t n_args;
	char function[SOFTGPU_NAME_BYTES];
	struct softgpu_launch_arg args[SOFTGPU_MAX_LAUNCH_ARGS];
};

/* FUNCTION reads the name of a function of a module, and writes where its parameters lie, and what
 * the driver knows of it. The attributes have the numbers of the CUDA Driver API; 0: unknown. */
#define SOFTGPU_FUNCTION_ATTRIBUTES 16u
struct softgpu_function {
	char name[SOFTGPU_NAME_BYTES];
	uint32_t error; /* enum softgpu_error; not OK: there is no such function */
	uint32_t n_params;
	uint32_t offset[SOFTGPU_MAX_LAUNCH_ARGS], size[SOFTGPU_MAX_LAUNCH_ARGS]; /* bytes */
	int32_t attributes[SOFTGPU_FUNCTION_ATTRIBUTES];
};

/* SYMBOL reads the name of a variable of a module, and writes where it lies. It is not in the
 * partition: only GPU kernels of the module and SYMBOL_COPY reach it. */
struct softgpu_symbol {
	char name[SOFTGPU_NAME_BYTES];
	uint32_t error, pad; /* enum softgpu_error; not OK: there is no such variable */
	uint64_t at, bytes;  /* the device's address */
};

/* OCCUPANCY reads a function and the shape of its blocks, and writes how many of them a
 * multiprocessor executes at a time. */
struct softgpu_occupancy {
	char name[SOFTGPU_NAME_BYTES];
	uint32_t error, threads; /* of a block */
	uint32_t shared, blocks; /* bytes of dynamic shared memory of a block */
};

/* SYMBOL_COPY copies BYTES bytes at OTHER in the partition to those at OFFSET in a variable of a
 * module; or if OUT is 1, the other way. */
struct softgpu_symbol_copy {
	char name[SOFTGPU_NAME_BYTES];
	uint64_t offset, other, bytes;
	uint32_t out, pad;
};

/* SLOTS gives the VF further rings, each with a fence, an error and modules of its own. A slot is
 * opened, or begins anew, by another number in ASKED: when nothing of the slot runs any more, the
 * host unloads its modules, reads where its ring is, and writes that number to ANSWERED. 0: the
 * slot is closed. A wrong packet stops its slot only.
 *
 * AWAIT, in a slot, holds the packets behind it until the FENCE of another slot has reached a
 * value. It waits for the opening of that slot which has answered ASKED: when that has ended,
 * however it has, nothing is waited for. */
#define SOFTGPU_MAX_SLOTS 8u
struct softgpu_slot {
	/* written by the guest */
	uint64_t asked;
	uint64_t ring,
		packets; /* as the registers of the VF's ring; read when the slot is opened */
	uint64_t wptr;	 /* counts from 0 when the slot is opened */
	/* written by the host */
	uint64_t answered;
	uint64_t fence; /* the value of the last FENCE */
	uint64_t error; /* enum softgpu_error */
	uint64_t
		awake; /* 1: WPTR is looked at, and needs no doorbell; read after WPTR is written */
};

/* ABOUT writes what GPU kernels run on, and the addresses by which they reach the partition. The
 * attributes have the numbers of the CUDA Driver API; 0: unknown. */
#define SOFTGPU_ATTRIBUTES 128u
struct softgpu_about {
	char name[64];
	uint64_t window_at, memory_at; /* the window, and the memory behind it */
	int32_t attributes[SOFTGPU_ATTRIBUTES];
};
/* Where workers and guests' programs try to map the window, so that its addresses are equal in
 * both, and a GPU kernel takes the program's pointers. Linux puts nothing there by itself. */
#define SOFTGPU_WINDOW_HINT UINT64_C(0x1f0000000000)

/* The arena: addresses without memory, a range for each ring. MAP gives granules of the memory
 * behind the window a second address there, and UNMAP takes it. Packets reach mapped granules of
 * their own ring's range by offsets from SOFTGPU_ARENA_AT on, which no partition reaches. ARENA
 * writes where the range of its ring is; if there is none, zeros. */
#define SOFTGPU_ARENA_AT (UINT64_C(1) << 48)
struct softgpu_arena {
	uint64_t at;	  /* the device's address of its first byte */
	uint64_t offset;  /* that byte as an offset of packets */
	uint64_t bytes;	  /* a multiple of GRANULE */
	uint64_t granule; /* MAP and UNMAP take multiples of this, from the memory's first byte */
};

#endif
