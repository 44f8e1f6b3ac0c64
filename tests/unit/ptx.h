/* SPDX-License-Identifier: MIT */
/*
 * Runs PTX on the CPU, one thread after another: to see our kernels as they are kept, and the gate,
 * do what they should without a GPU. It knows the instructions that these use, and ends the program
 * with a message at any other. What they mean is the PTX ISA's (NVIDIA, version 8.5).
 */
#ifndef TESTS_PTX_H
#define TESTS_PTX_H

#include <stdbool.h>
#include <stdint.h>

struct ptx;

struct ptx_launch {
	uint32_t grid[3], block[3];
	uint32_t shared;    /* bytes of dynamic shared memory */
	const void *params; /* as they lie: ptx_param() */
	/* Blocks begin in an order of their own, as on a GPU; this is called before each, with how
	 * many have begun. May be NULL. */
	void (*begins)(void *data, uint64_t n);
	void *data;
};

/* Entry NAME of TEXT, which the caller frees by ptx_free(); without a NAME all that is outside of
 * entries. NULL: it is not there, or not understood, which is said on stderr. A global address is a
 * pointer. */
struct ptx *ptx_read(const char *text, const char *name);

/* Where parameter I lies, and its size, in bytes. False: there are not so many. */
bool ptx_param(const struct ptx *p, uint32_t i, uint32_t *at, uint32_t *size);

/* Bytes of shared memory that are not dynamic. */
uint32_t ptx_shared(const struct ptx *p);

void ptx_run(struct ptx *p, const struct ptx_launch *l);
void ptx_free(struct ptx *p);

#endif
