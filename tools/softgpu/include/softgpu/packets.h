/* SPDX-License-Identifier: MIT */
/* The packets of a VF of softgpu, which a guest writes into rings, and what they point to. */
#pragma once

#include <stdint.h>

enum softgpu_error {
	SOFTGPU_OK = 0,
	SOFTGPU_BAD_OPCODE = 1,
	SOFTGPU_BAD_ARGUMENT = 2,
	SOFTGPU_OUT_OF_RANGE = 3,
	SOFTGPU_DMA_FAULT = 4,
	SOFTGPU_BAD_RING = 5,
	SOFTGPU_FAULTED = 6,
	SOFTGPU_BAD_MODULE = 7,	  /* does not compile; its log says why */
	SOFTGPU_BAD_LAUNCH = 8,	  /* no such function, or an invalid grid or arguments */
	SOFTGPU_BAD_MAP = 9,	  /* the device has no memory for its page tables */
	SOFTGPU_NO_ROOM = 10,	  /* the module does not fit into what is left for modules */
	SOFTGPU_OTHER_GPU = 11,	  /* the module has nothing for this GPU */
	SOFTGPU_BAD_ADDRESS = 12, /* of FAULTS: a GPU kernel used one that is not there */
	SOFTGPU_ASSERTED = 13,	  /* of FAULTS: an assertion of a GPU kernel failed */
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
	SOFTGPU_HAS_OUTPUT = 512, /* OUTPUT */
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
	SOFTGPU_OUTPUT = 26,	    /* 0, struct softgpu_output, bytes */
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

/* OUTPUT writes the text that GPU kernels of the ring have printed, the oldest first, and takes it
 * from what the host keeps. It writes no text while BYTES is not 0: the guest sets that to 0 when
 * it has read what was there. The host keeps the last MiB of a ring's text. */
struct softgpu_output {
	uint32_t prints; /* written by the host: 1: a module of the ring can print */
	uint32_t bytes;	 /* of TEXT */
	uint64_t left;	 /* written by the host: bytes that it still keeps */
	char text[16368];
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

/* The arena: addresses without memory, a range for each ring. MAP gives granules of the memory
 * behind the window a second address there, and UNMAP takes it. Packets reach mapped granules of
 * their own ring's range by offsets from SOFTGPU_ARENA_AT on, which no partition reaches. ARENA
 * writes where the range of its ring is; if there is none, zeros. */
#define SOFTGPU_ARENA_AT (UINT64_C(1) << 48)
struct softgpu_arena {
	uint64_t at;	  /* the device's address of its first byte */
	uint64_t offset;  /* the byte as an offset of packets */
	uint64_t bytes;	  /* a multiple of GRANULE */
	uint64_t granule; /* MAP and UNMAP take multiples of this, from the memory's first byte */
};
