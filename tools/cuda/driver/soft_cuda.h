/* SPDX-License-Identifier: MIT */
/* The parts that the files of the CUDA driver's interface in software share. */
#pragma once

#include <stdbool.h>

#include "cuda.h"
#include "ptx.h"
#include "soft_binary.h"
#include "softgpu/packets.h"

#define CUDA_ERROR_INVALID_IMAGE 200
#define CUDA_ERROR_INVALID_CONTEXT 201
#define CUDA_ERROR_INVALID_PTX 218
#define SOFT_CUDA_PROCESSORS 4
#define SOFT_CUDA_THREADS 2048		/* of a processor, at a time */
#define SOFT_CUDA_COOPERATIVE_LAUNCH 95 /* an attribute of the device */
#define SOFT_CUDA_INPUT_CUBIN 0
#define CU_FUNC_REGISTERS 4
#define CU_FUNC_BINARY_VERSION 6

#define DECLARE(name, since, signature) CUresult name signature;
CUDA_ENTRIES(DECLARE)

struct function {
	char name[SOFTGPU_NAME_BYTES];
	struct ptx *code;
	struct function *next;
	unsigned dynamic; /* most dynamic shared memory of a launch, bytes; 0: not set */
};

/* What a work in a stream does. */
enum work_kind { WORK_COPY, WORK_SET, WORK_LAUNCH };

struct work {
	enum work_kind kind;
	void *dst;
	const void *src;
	size_t n;
	int value;
	struct function *function;
	struct ptx_launch launch;
	void *params;
	struct work *next;
};

/* The calling thread's current context; NULL: none. */
extern __thread CUcontext soft_cuda_context;

/* Memory of the GPU that the driver takes for itself, in whole granules. Called by the thread that
 * loads and launches. */
struct memory;
/* For what a module has, BYTES. NULL: there are not enough granules. */
struct memory *soft_cuda_take_module(uint64_t bytes);
void soft_cuda_give(struct memory *m);
/* For a GPU kernel each of whose threads needs BYTES of local memory. The most that any has needed
 * stays. False: there are not enough granules. */
bool soft_cuda_take_local(uint32_t bytes);

/* What GPU kernels print, and their failed assertions: see struct ptx_launch. */
int soft_cuda_prints(void *data, const char *format, const void *arguments);
void soft_cuda_asserts(void *data, const char *text);

/* Puts WORK at the end of the stream, which frees PARAMS from now on. */
CUresult soft_cuda_enqueue(struct work work);
