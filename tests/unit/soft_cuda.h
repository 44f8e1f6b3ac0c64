/* SPDX-License-Identifier: MIT */
/* The parts that the files of the CUDA driver's interface in software share. */
#ifndef TESTS_SOFT_CUDA_H
#define TESTS_SOFT_CUDA_H

#include <stdbool.h>

#include "cuda.h"
#include "ptx.h"

#define CUDA_ERROR_INVALID_IMAGE 200
#define CUDA_ERROR_INVALID_CONTEXT 201
#define CUDA_ERROR_INVALID_PTX 218
#define CU_FUNC_REGISTERS 4
#define CU_FUNC_BINARY_VERSION 6

#define DECLARE(name, since, signature) CUresult name signature;
CUDA_ENTRIES(DECLARE)

struct function {
	char name[256];
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

/* Puts WORK at the end of the stream, which frees PARAMS from now on. */
CUresult soft_cuda_enqueue(struct work work);

/* soft_cuda_elf.c: the binary of PTX text whose arrays outside of functions have GLOBALS bytes; the
 * caller frees it. */
uint8_t *soft_cuda_binary(const char *text, uint64_t globals, size_t *size);
/* The text in a binary; NULL: this device does not execute the binary. */
const char *soft_cuda_text(const void *binary);
/* The first PTX text in a fat binary that is not compressed, or NULL. */
const char *soft_cuda_fat_text(const uint8_t *fat, size_t n);

#endif
