/* SPDX-License-Identifier: MIT */
/* Copies of bytes in a row, for copies.c, rows.c and set.c. They are in the order of all streams.
 */
#pragma once

#include "cuda_work.h"

/* The memory at an address of the device. */
struct copy_place {
	const struct symbol *symbol; /* NULL: it is in the partition */
	uint64_t offset;	     /* from the start of the variable or of the partition, bytes */
};

/* Returns whether all BYTES at AT are in one allocation or one variable, and writes that to P. */
bool copy_find(CUdeviceptr at, uint64_t bytes, struct copy_place *p);
/* Returns the most bytes of the window that one step of a copy of BYTES uses. */
uint64_t copy_step(uint64_t bytes);
/* Put the packet of one copy into the ring: of BYTES from FROM in the window to OFFSET behind P, or
 * from there to TO in the window. FROM and TO are offsets in the partition. */
CUresult copy_in(const struct copy_place *p, uint64_t offset, uint64_t from, uint64_t bytes);
CUresult copy_out(const struct copy_place *p, uint64_t offset, uint64_t to, uint64_t bytes);

/* Copy BYTES between the program's memory and the device's: when they return, the program may use
 * its own memory again. */
CUresult copy_to_device(CUdeviceptr dst, const void *src, uint64_t bytes);
CUresult copy_to_host(void *dst, CUdeviceptr src, uint64_t bytes);
/* Copies within device memory. Fails if the ranges overlap and are not the same. */
CUresult copy_on_device(CUdeviceptr dst, CUdeviceptr src, uint64_t bytes);
