/* SPDX-License-Identifier: MIT */
/*
 * The device that a worker computes on: a queue of pieces, which are executed in order and can be
 * stopped. There are two: a GPU through the CUDA Driver API, and the CPU, which executes the same
 * GPU kernels on hosts without a GPU.
 *
 * The control thread calls stop() and resume(); these call nothing that waits for the device. It
 * also calls what swaps, while the ring's thread does nothing. Any thread may call gate(), and any
 * one thread compile(). The ring's thread calls everything else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"
#include "softgpu/registers.h"
#include "softgpu/packets.h"
#include "vgpu/types.h"

#define DEVICE_SLOTS 8u
/* Rings: the VF's, which is number 0, and those of slots; and the modules of all of them. */
#define DEVICE_SOURCES (1u + SOFTGPU_MAX_SLOTS)
#define DEVICE_MODULES (DEVICE_SOURCES * SOFTGPU_MAX_MODULES)
/* The most blocks of a grid that can be stopped between blocks: one mark each. */
#define DEVICE_MARKS (256u << 10)

/* softgpu's own GPU kernels: kernels.cl. */
#define KERNEL_LIST(X)                                                                             \
	X(FILL, fill)                                                                              \
	X(COPY8, copy8)                                                                            \
	X(COPY1, copy1)                                                                            \
	X(SAXPY, saxpy)                                                                            \
	X(GEMM, gemm)                                                                              \
	X(SHA256, sha256)                                                                          \
	X(SHA256_END, sha256_end)                                                                  \
	X(MANDELBROT, mandelbrot)                                                                  \
	X(SPIN, spin)                                                                              \
	X(COUNT, count)
#define KERNEL_NUMBER(number, name) KERNEL_##number,
enum kernel { KERNEL_LIST(KERNEL_NUMBER) KERNELS };
/* Their one parameter. */
struct kernel_args {
	uint64_t a[8];
};

enum piece_kind {
	PIECE_KERNEL = 0, /* a GPU kernel of softgpu's */
	PIECE_FUNCTION,	  /* a function of a guest's module */
	PIECE_TRANSFER,	  /* between window and device memory, by a copy engine */
	/* The worker executes these itself; they do not enter the device's queue. */
	PIECE_DMA, /* between the window and the client's memory */
	PIECE_FENCE,
	PIECE_EVENT,
};

/* One entry of the queue. Addresses are the device's. */
struct piece {
	enum piece_kind kind;
	bool gated;	 /* it may be stopped between blocks */
	bool together;	 /* FUNCTION: all of its blocks run at a time; it has no gate */
	uint32_t kernel; /* enum kernel */
	void *function;
	uint32_t grid[3], block[3], shared;
	uint32_t params_size;
	_Alignas(16) uint8_t params[SOFTGPU_MAX_LAUNCH_BYTES];
	uint64_t dst, src, bytes; /* TRANSFER; DMA: offset in the window, iova; EVENT: dst */
	uint64_t value;		  /* FENCE */
	/* FUNCTION: where in the window a wrong launch is reported; UINT64_MAX: it stops the VF */
	uint64_t report;
	uint32_t flags;
	uint64_t serial; /* the mark of its blocks that have run; differs for each piece */
	vgpu_nsec cost;	 /* how long it is expected to take; 0: not known */
};

enum device_state {
	DEVICE_RUNNING = 0,
	DEVICE_DONE,
	DEVICE_SKIPPED,	    /* the gate was shut: some of its blocks have not run */
	DEVICE_LOST,	    /* the device has failed; the process must end */
	DEVICE_BAD_ADDRESS, /* the same, and why: an address that is not there */
	DEVICE_ASSERTED,    /* the same: an assertion of a GPU kernel failed */
};

/* Where a function expects its arguments: offsets and sizes in bytes. */
struct device_params {
	uint32_t n, bytes;
	uint32_t offset[SOFTGPU_MAX_LAUNCH_ARGS], size[SOFTGPU_MAX_LAUNCH_ARGS];
};

struct device;

/* The arena: addresses without memory, a range of them for each ring, one behind the other. */
struct device_arena {
	uint64_t at;	   /* the address of the first one */
	uint64_t granule;  /* bytes */
	uint64_t granules; /* granules of each range */
	uint32_t *mapped;  /* for each granule of all ranges: 0, or 1 + the granule of the memory
			      behind the window that is mapped there */
};

struct device_setup {
	uint32_t gpu;	 /* the GPU's number, in the order of PCI addresses */
	uint8_t *window; /* the VF's window, mapped here */
	uint64_t window_size, size;
	uint8_t *stage;	  /* WORKER_STAGE bytes, through which device memory is copied */
	uint32_t vf;	  /* the VF's number; names its control group */
	uint64_t modules; /* bytes of GPU memory beside SIZE that the VF's modules, and the local
			   * memory of their GPU kernels, may take */
	uint64_t limit;	  /* bytes of GPU memory that the driver allows this process, its context
			   * included; 0: the driver has no limits */
};

struct device_ops {
	/* The group of this file may use the device. NULL: everybody may. */
	const char *file;
	/* Does what needs softgpu's privileges, before the process gives them up: finds the driver
	 * and sets limits. 0 or -errno with one sentence. */
	int (*prepare)(struct device **out, const struct device_setup *setup,
		       struct vgpu_error *err);
	/* Takes the VF's memory, and clears it. 0; or -errno with one sentence: D is freed. */
	int (*open)(struct device *d, const struct device_setup *setup, struct vgpu_error *err);
	/* Clears the memory, gives it back, and frees D. */
	void (*close)(struct device *d);
	/* Describes the device. */
	void (*about)(struct device *d, struct device_about *about);
	/* Address of a byte of the partition. */
	uint64_t (*address)(struct device *d, uint64_t offset);
	/* Address of 64 bytes outside the partition, which GPU kernels keep between pieces. */
	uint64_t (*scratch)(struct device *d);
	/* For swapping, while nothing of the VF runs: the control thread calls these, and they wait
	 * for the device. COPY: between the stage and device memory, AT bytes from its beginning. 0
	 * or -EIO. LEAVE: clears the device memory and gives it back, so that others can have it;
	 * nothing may be launched then. 0 or -EIO. ENTER: takes device memory again, cleared and at
	 * the same addresses. 0; -ENOMEM: there is too little, and nothing has changed; -EIO. */
	int (*copy)(struct device *d, uint64_t at, uint64_t bytes, bool out);
	int (*leave)(struct device *d);
	int (*enter)(struct device *d);
	/* Puts P into the queue. 0; -EINVAL: P's grid or arguments are wrong; -EIO: the device is
	 * lost, -EFAULT, -ECANCELED: by a BAD_ADDRESS, by an assertion. */
	int (*launch)(struct device *d, uint32_t slot, const struct piece *p);
	enum device_state (*poll)(struct device *d, uint32_t slot);
	/* While the gate is shut, blocks of gated pieces that have not begun do not begin. Never
	 * waits; any thread. */
	void (*gate)(struct device *d, bool shut);
	/* METHOD is one of enum worker_stop. After it has returned 0, nothing runs until resume(),
	 * but with WORKER_STOP_SOFT. */
	int (*stop)(struct device *d, uint32_t method);
	int (*resume)(struct device *d);
	/* Compiles IMAGE, which ends in a 0 byte and belongs to the device from now on, for the
	 * place of MODULE. FLAGS of MODULE_LOAD; what a CHECK has made can only be dropped. LOG
	 * gets the compiler's messages, or why the device refuses the image. 0 or -errno. */
	int (*compile)(struct device *d, uint32_t module, uint8_t *image, uint64_t bytes,
		       uint32_t flags, void **compiled, char *log, uint32_t log_size);
	/* Makes the compiled module usable; called in the VF's own slice, after the unloading of
	 * the module that it replaces. 0; 1: the same, and GPU kernels of it can print; or -errno.
	 */
	int (*load)(struct device *d, uint32_t module, void *compiled);
	/* Frees what compile() has made instead. */
	void (*drop)(void *compiled);
	void (*unload)(struct device *d, uint32_t module);
	/* Finds a function of a module for P, and checks that the grid of P can be launched. If P
	 * is a PIECE_FUNCTION it will be, and what the function needs counts from now on. 0 or
	 * -EINVAL. */
	int (*function)(struct device *d, uint32_t module, const char *name, struct piece *p,
			struct device_params *params);
	/* What the driver knows of a function: SOFTGPU_FUNCTION_ATTRIBUTES numbers. 0 or -EINVAL.
	 */
	int (*attributes)(struct device *d, uint32_t module, const char *name, int32_t *out);
	/* How many blocks of a function, of THREADS threads and SHARED bytes of dynamic shared
	 * memory, a multiprocessor executes at a time. 0 or -EINVAL. */
	int (*occupancy)(struct device *d, uint32_t module, const char *name, uint32_t threads,
			 uint32_t shared, uint32_t *blocks);
	/* Where a variable of a module lies: the device's address, and its bytes. 0 or -EINVAL. */
	int (*symbol)(struct device *d, uint32_t module, const char *name, uint64_t *at,
		      uint64_t *bytes);
	/* Takes up to ROOM bytes of what GPU kernels have printed, while none runs. Returns how
	 * many; 0: there is no more. */
	uint32_t (*output)(struct device *d, char *text, uint32_t room);
	/* After DEVICE_ASSERTED: writes what the driver says of it to TEXT, with a 0 byte. */
	void (*last_words)(struct device *d, char *text, uint32_t room);
	/* The arena, which stays the device's; NULL: there is none. A device without this op has
	 * none, and needs none of the two ops that follow. These are called while nothing is in
	 * the device's queue, and keep the arena's MAPPED. */
	const struct device_arena *(*arena)(struct device *d);
	/* Maps N granules of the memory behind the window, from FROM on, at those of the arena from
	 * AT on, of which none is mapped. 0; -ENOMEM: none is mapped; -EIO: the device is lost. */
	int (*map)(struct device *d, uint64_t at, uint64_t from, uint64_t n);
	/* N granules of the arena from AT on, all of them mapped, are mapped no longer. 0 or -EIO.
	 */
	int (*unmap)(struct device *d, uint64_t at, uint64_t n);
};

extern const struct device_ops device_host, device_cuda;
