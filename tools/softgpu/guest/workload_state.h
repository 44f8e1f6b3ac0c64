/* SPDX-License-Identifier: MIT */
/* The state that all kinds of work share. */
#pragma once

#include <string.h>

#include "workload.h"

/* Where the device sees the guest's own memory. */
#define DMA_IOVA (UINT64_C(1) << 32)

struct workload_state {
	const struct workload *w;
	struct workload_options o;
	uint32_t slots;
	uint8_t *memory;
	uint64_t offset; /* in the partition, of the memory that packets work on */
	uint64_t slot_size;
	uint64_t window;   /* offset in the partition, of MEMORY */
	uint8_t *expected; /* results, SLOT_SIZE bytes for each slot */
	uint8_t *own;	   /* the guest's own memory, which the device sees at DMA_IOVA */
	uint64_t own_size; /* size of a slot */
	uint64_t jobs;
};

static inline uint8_t *slot_memory(const struct workload_state *s, uint32_t slot)
{
	return s->memory + slot * s->slot_size;
}

static inline uint64_t slot_offset(const struct workload_state *s, uint32_t slot)
{
	return s->offset + slot * s->slot_size;
}

static inline uint8_t *slot_expected(const struct workload_state *s, uint32_t slot)
{
	return s->expected + slot * s->slot_size;
}

extern const struct workload work_mandelbrot, work_sha256, work_gemm, work_saxpy, work_dma,
	work_mixed, work_interactive, work_spin, work_hog, work_endless, work_fault;
