/* SPDX-License-Identifier: MIT */
/*
 * What a worker computes on: a queue of pieces that are executed in order, and can be made to stop.
 * Two of them: a GPU through the CUDA Driver API, and the CPU, with the same kernels, where there
 * is no GPU.
 *
 * stop() and resume() are the control thread's; they never call what waits for the device. All else
 * is the ring thread's, but load(), which compiles and may be called from any one thread.
 */
#ifndef WORKER_DEVICE_H
#define WORKER_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"
#include "vfio/gpuiov.h"
#include "vgpu/types.h"

#define DEVICE_SLOTS 8u
/* The most blocks of a grid that can be stopped between blocks: one mark each. */
#define DEVICE_MARKS (256u << 10)

/* Kernels of our own: kernels.cl. */
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
	PIECE_KERNEL = 0, /* of our own */
	PIECE_FUNCTION,	  /* of a module of the guest's */
	PIECE_TRANSFER,	  /* between window and device memory, by a copy engine */
	PIECE_DMA,	  /* the worker's own: between the window and the client's memory */
	PIECE_FENCE,	  /* the worker's own */
	PIECE_EVENT,	  /* the worker's own */
};

/* What is put into the queue at once. Addresses are the device's. */
struct piece {
	enum piece_kind kind;
	bool gated;	 /* may be stopped between blocks */
	uint32_t kernel; /* enum kernel */
	void *function;
	uint32_t grid[3], block[3], shared;
	uint32_t params_size;
	_Alignas(16) uint8_t params[SOFTGPU_MAX_LAUNCH_BYTES];
	uint64_t dst, src, bytes; /* TRANSFER; DMA: offset in the window, iova; EVENT: dst */
	uint64_t value;		  /* FENCE */
	uint32_t flags;
	uint64_t serial; /* what its blocks are marked with; another for each piece */
	vgpu_nsec cost;	 /* how long it is expected to take; 0: nobody knows */
};

enum device_state {
	DEVICE_RUNNING = 0,
	DEVICE_DONE,
	DEVICE_SKIPPED, /* the gate was shut: some of its blocks have not run */
	DEVICE_LOST,	/* the device does not go on; the process has to end */
};

/* Where a function expects its arguments. */
struct device_params {
	uint32_t n, bytes;
	uint32_t offset[SOFTGPU_MAX_LAUNCH_ARGS], size[SOFTGPU_MAX_LAUNCH_ARGS];
};

struct device;

struct device_setup {
	uint32_t gpu;	 /* which; in the order of their PCI addresses */
	uint8_t *window; /* of the VF, mapped here */
	uint64_t window_size, size;
	uint32_t vf;	/* a name for it, beside others */
	uint64_t limit; /* the most that the driver is to let it have, with all it needs itself; 0:
			 * it has no limits */
};

struct device_ops {
	/* Whoever is in the group of this file may use the device. NULL: anybody may. */
	const char *file;
	/* What needs the rights that softgpu has, which the process gives up after that: a driver
	 * is found, limits are set. 0 or -errno with one sentence. */
	int (*prepare)(struct device **out, const struct device_setup *setup,
		       struct vgpu_error *err);
	/* Takes the VF's memory, and clears it. 0, or -errno with one sentence; then D is gone. */
	int (*open)(struct device *d, const struct device_setup *setup, struct vgpu_error *err);
	/* Clears the memory, and gives it back. */
	void (*close)(struct device *d);
	/* What it is. */
	void (*about)(struct device *d, struct device_about *about);
	/* Address of a byte of the partition. */
	uint64_t (*address)(struct device *d, uint64_t offset);
	/* Address of 64 bytes that are not the VF's: what kernels keep between pieces. */
	uint64_t (*scratch)(struct device *d);
	/* 0; -EINVAL: it cannot be launched like that; -EIO: lost. */
	int (*launch)(struct device *d, uint32_t slot, const struct piece *p);
	enum device_state (*poll)(struct device *d, uint32_t slot);
	/* Shut: blocks of gated pieces that have not begun do not. Never waits; any thread. */
	void (*gate)(struct device *d, bool shut);
	/* METHOD is one of enum worker_stop. When it returns 0, nothing runs, until resume(). */
	int (*stop)(struct device *d, uint32_t method);
	int (*resume)(struct device *d);
	/* Compiles IMAGE, which is ours from now on and ends in a 0 byte; LOG gets what the
	 * compiler says. */
	int (*compile)(struct device *d, uint8_t *image, uint64_t bytes, bool gated,
		       void **compiled, char *log, uint32_t log_size);
	/* Makes what was compiled usable; in the VF's own time. */
	int (*load)(struct device *d, uint32_t module, void *compiled);
	void (*unload)(struct device *d, uint32_t module);
	/* Looks for a function in a module, which becomes P's, and checks that it can be launched
	 * as P says. 0 or -EINVAL. */
	int (*function)(struct device *d, uint32_t module, const char *name, struct piece *p,
			struct device_params *params);
};

extern const struct device_ops device_host, device_cuda;

#endif
