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

/* The kinds of work in a stream. */
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
/* Takes memory for the BYTES of a module. Returns NULL if there are not enough granules. */
struct memory *soft_cuda_take_module(uint64_t bytes);
/* Ends a use of M, and frees M if that was the last one. */
void soft_cuda_give(struct memory *m);
/* Takes memory for a GPU kernel each of whose threads needs BYTES of local memory. It is never
 * reduced. Returns false if there are not enough granules. */
bool soft_cuda_take_local(uint32_t bytes);

/* The functions for output and failed assertions of GPU kernels: see struct ptx_launch. */
int soft_cuda_prints(void *data, const char *format, const void *arguments);
void soft_cuda_asserts(void *data, const char *text);

/* Puts WORK at the end of the stream, which takes over PARAMS and frees it. */
CUresult soft_cuda_enqueue(struct work work);
