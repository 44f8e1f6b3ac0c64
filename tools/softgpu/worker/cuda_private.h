/* SPDX-License-Identifier: MIT */
/* What cuda.c, which executes pieces, and cuda_module.c, which compiles modules, share. */
#ifndef WORKER_CUDA_PRIVATE_H
#define WORKER_CUDA_PRIVATE_H

#include <stdatomic.h>

#include "cuda.h"
#include "device.h"

#define NAME_SIZE 48

/* Host memory that the GPU reads and writes; no packet reaches it. */
struct gate_page {
	_Atomic uint32_t flag;
	uint32_t pad[15];
	_Atomic uint64_t skipped[DEVICE_SLOTS];
	uint8_t copied[65536]; /* to and from the GPU at the start, when the window is the guest's
				*/
};

struct device {
	struct cuda_api api;
	CUcontext context;
	CUstream stream;
	CUevent events[DEVICE_SLOTS];
	uint64_t serials[DEVICE_SLOTS]; /* of the gated piece in a slot, 0: none */
	CUhandle memory;
	CUdeviceptr window_at, memory_at, gate_at, marks_at, scratch_at;
	uint64_t window_size, behind, reserved;
	struct gate_page *gate;
	CUmodule own;
	CUfunction kernels[KERNELS];
	CUmodule modules[SOFTGPU_MAX_MODULES];
	bool gated[SOFTGPU_MAX_MODULES];
	int max_grid[3], max_shared;
	struct vgpu_error limit_error; /* why the driver does not limit the memory; "": it does */
	char name[NAME_SIZE];
};

/* PIECE_FUNCTION: the module was given a gate. */
#define HAS_GATE 1u

const char *cuda_error_name(struct device *d, CUresult e);

/* cuda_module.c: compiles PTX to a binary for this GPU, *IMAGE, which the caller frees. LOG gets
 * the compiler's messages. */
CUresult cuda_assemble(struct device *d, char *text, void **image, char *log, uint32_t log_size);
int cuda_compile(struct device *d, uint8_t *image, uint64_t bytes, bool gated, void **compiled,
		 char *log, uint32_t log_size);
int cuda_load_module(struct device *d, uint32_t module, void *compiled);
void cuda_unload(struct device *d, uint32_t module);
int cuda_function(struct device *d, uint32_t module, const char *name, struct piece *p,
		  struct device_params *params);

#endif
