/* SPDX-License-Identifier: MIT */
/* What kinds of work are made of. */
#ifndef GUEST_WORKLOAD_STATE_H
#define GUEST_WORKLOAD_STATE_H

#include <string.h>

#include "workload.h"

/* The guest's own memory, to its device. */
#define DMA_IOVA (UINT64_C(1) << 32)

struct workload_state {
	const struct workload *w;
	struct workload_options o;
	uint32_t slots;
	uint8_t *memory;
	uint64_t offset, slot_size; /* what packets call the memory that they work on */
	uint64_t window;
	uint8_t *expected; /* as many bytes as a slot, for each slot */
	uint8_t *own;	   /* the guest's own memory, at DMA_IOVA for the device */
	uint64_t own_size; /* of a slot */
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

#endif
