/* SPDX-License-Identifier: MIT */
/*
 * softgpu's PCI functions and their registers, beyond what GPU-IOV is (vfio/gpuiov.h): of the PF,
 * and of a VF. docs/softgpu-interface.md describes them.
 */
#pragma once

#include <stdint.h>

/* The numbers of its functions, which no manufacturer uses; see docs/softgpu-interface.md. */
#define SOFTGPU_VENDOR 0x1234u
#define SOFTGPU_DEVICE_PF 0x5347u
#define SOFTGPU_DEVICE_VF 0x5348u

/* Interrupt vectors of softgpu */
enum { GPUIOV_VECTOR_ENGINE = 0, GPUIOV_VECTOR_MAILBOX = 1, GPUIOV_PF_VECTORS = 2 };
enum { SOFTGPU_VECTOR_FENCE = 0, SOFTGPU_VECTOR_MAILBOX = 1, SOFTGPU_VF_VECTORS = 2 };

/* FEATURES */
#define SOFTGPU_TAKES_CHAINS (1u << 0)
#define SOFTGPU_SHOWS (1u << 1)	    /* the PF's BAR 2 is a status page */
#define SOFTGPU_SCHEDULES (1u << 2) /* it schedules its VFs itself, by a plan of turns */
#define SOFTGPU_COUNTS (1u << 3)    /* it tells what VFs have spent and done */
#define SOFTGPU_EXPELS (1u << 4)    /* it ends VFs' clients when it is asked */

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
/* A bit of CMD, for IDLE: of a VF that has work, it ends with STATUS_BUSY, and the VF goes on. */
#define SOFTGPU_CMD_UNLESS_BUSY 0x40u
#define SOFTGPU_STATUS_BUSY 0x03u
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
#define SOFTGPU_EXPEL 0x04a0u	   /* write VFs: their clients end, and whoever waits to be one */
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
/* Of each VF, 64 bits: nanoseconds of CPU time that its processes and workers have used; and the
 * fences that its packets have reached, as its process or worker counts them. A read of the first
 * dword takes all of them at one instant; the others are read as of then. */
#define SOFTGPU_SPENT 0x0a00u
#define SOFTGPU_SPENT_WORDS 4u
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
/* 64 bits, which a reset leaves: how often the VF has faulted, and in the upper half why the last
 * time: FAULTED, BAD_ADDRESS or ASSERTED. STATUS says FAULTED of all of them. */
#define SOFTGPU_FAULTS 0x1058u
/* SOFTGPU_WORDS bytes: what the CUDA driver said of the last fault, of an ASSERTED, with a 0 byte
 */
#define SOFTGPU_WORDS_AT 0x1800u
#define SOFTGPU_WORDS 1024u
#define SOFTGPU_ABOUT_AT 0x1400u /* struct softgpu_about, without addresses; 0 without modules */
/* A VF's BAR 2: a write of 8 bytes at 0 is the doorbell, the new write pointer; one at 8, of any
 * value, the doorbell of all slots. */
#define SOFTGPU_DOORBELL 0x0u
#define SOFTGPU_SLOT_DOORBELL 0x8u
/* Where workers and guests' programs try to map the window, so that its addresses are equal in
 * both, and a GPU kernel takes the program's pointers. Linux puts nothing there by itself. */
#define SOFTGPU_WINDOW_HINT UINT64_C(0x1f0000000000)
