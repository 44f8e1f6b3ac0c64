/* SPDX-License-Identifier: MIT */
/* The kinds of work that vgpu-guest does, and how it checks their results. */
#pragma once

#include "guest.h"

struct workload_options {
	uint64_t us;	    /* length of a timed job */
	uint32_t size;	    /* size of the problem, 1 to 8 */
	bool device_memory; /* compute in device memory instead of the window */
};

struct workload_state;

/* A kind of work. Its state has one slot for each job in flight. */
struct workload {
	const char *name, *help;
	uint32_t depth; /* default number of jobs in flight */
	double rate;	/* default number of jobs a second; 0: no limit */
	bool endless;	/* its jobs do not end */
	uint64_t (*slot_bytes)(const struct workload_options *o);
	/* Fills in the inputs of a slot, and computes the expected result. */
	void (*fill)(struct workload_state *s, uint32_t slot);
	/* Puts a job's packets into the ring. */
	void (*emit)(struct workload_state *s, struct guest *g, uint32_t slot);
	/* Whether the result is right, to the bit. */
	bool (*check)(struct workload_state *s, uint32_t slot);
	/* Bytes of the guest's own memory for each slot, which packets access by DMA; NULL: none.
	 */
	uint64_t (*dma_bytes)(const struct workload_options *o);
};

/* All kinds of work; the last entry is NULL. */
extern const struct workload *const workloads[];
/* Returns the workload of that name; NULL if there is none. */
const struct workload *workload_find(const char *name);

/* Puts a job's packets into the ring. */
void workload_emit(struct workload_state *s, struct guest *g, uint32_t slot);
/* Makes the state of W for SLOTS jobs in flight, and fills in all inputs. Returns 0 or -errno with
 * the reason. */
int workload_prepare(struct workload_state **out, const struct workload *w, struct guest *g,
		     const struct workload_options *o, uint32_t slots, struct vgpu_error *err);
/* Fills in all inputs again, in the new memory after a reset. Returns 0 or -errno with the reason.
 */
int workload_restart(struct workload_state *s, struct guest *g, struct vgpu_error *err);
/* Mandelbrot: writes the picture of each slot to PREFIX-N.png. */
void workload_png(struct workload_state *s, const char *prefix);
/* S may be NULL. */
void workload_free(struct workload_state *s);
