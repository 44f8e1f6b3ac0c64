/* SPDX-License-Identifier: MIT */
/* The work that tenants do, and how its results are checked. */
#ifndef GUEST_WORKLOAD_H
#define GUEST_WORKLOAD_H

#include "guest.h"

struct workload_options {
	uint64_t us;
	uint32_t size;
	bool device_memory; /* compute there, and not in the window */
};

struct workload_state;

/* A kind of work. The state has one slot for each job in flight. */
struct workload {
	const char *name, *help;
	uint32_t depth; /* by default */
	double rate;	/* jobs a second, by default; 0: as many as there can be */
	bool endless;	/* its jobs do not end */
	uint64_t (*slot_bytes)(const struct workload_options *o);
	/* Fills in the inputs of a slot, and computes what has to come out. */
	void (*fill)(struct workload_state *s, uint32_t slot);
	/* Puts a job's packets into the ring. */
	void (*emit)(struct workload_state *s, struct guest *g, uint32_t slot);
	/* Whether what came out is right, to the bit. */
	bool (*check)(struct workload_state *s, uint32_t slot);
	/* Memory of the guest itself for each slot, that packets reach by DMA; NULL: none. */
	uint64_t (*dma_bytes)(const struct workload_options *o);
};

/* All there are; NULL ends them. */
extern const struct workload *const workloads[];
const struct workload *workload_find(const char *name);

/* Puts a job's packets into the ring. */
void workload_emit(struct workload_state *s, struct guest *g, uint32_t slot);
int workload_prepare(struct workload_state **out, const struct workload *w, struct guest *g,
		     const struct workload_options *o, uint32_t slots, struct vgpu_error *err);
/* After a reset: the memory is new. */
int workload_restart(struct workload_state *s, struct guest *g, struct vgpu_error *err);
/* Writes the picture of each slot, if there are any, to PREFIX-N.png. */
void workload_png(struct workload_state *s, const char *prefix);
void workload_free(struct workload_state *s);

#endif
