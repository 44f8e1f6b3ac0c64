/* SPDX-License-Identifier: MIT */
/*
 * The loop around vgpu/memory_step.h: carries out its actions through the driver and the core, and
 * returns the results as events. Memory that the GPU has cleared or copied is verified by samples.
 * Engine thread.
 */
#pragma once

#include "vgpu/driver.h"
#include "vgpu/memory_step.h"

struct engine_request;

/* A clear or copy that the GPU is working on. */
struct gpu_memory_piece {
	bool at_work;
	bool ours; /* false: an earlier vgpud began it */
	bool copies;
	struct vgpu_extent where;
	uint64_t from;
	vgpu_nsec began, look_at;
};

struct gpu_memory {
	/* The owner sets these before gpu_memory_open. */
	vgpu_event_sink *sink; /* to the core, which must handle all events before run and begin */
	void (*reply)(void *data, struct engine_request *request);
	void *data;
	const struct vgpu_core *core;
	void *memory;		   /* vgpu_memory_state_size() bytes, initially zero */
	struct recorder *recorder; /* the owner of MEMORY; NULL: nothing is recorded */
	vgpu_nsec epoch;
	vgpu_vf_set swappable;

	const struct vgpu_memory_face *ops;
	struct vgpu_driver *driver; /* NULL: not open */
	struct vgpu_memory_state *state;
	struct vgpu_memory_output out;
	uint32_t n_vfs;
	uint64_t granule;
	bool swaps;
	struct vgpu_memory_vf known[VGPU_GPU_MAX_VFS]; /* as last reported to STATE */
	vgpu_vf_set telling;		   /* VFs with an event that the core has not handled yet */
	bool engine_works, late;	   /* LATE: the core was stepped since the last report */
	vgpu_nsec tell_at;		   /* the next report, unless STATE waits for one */
	uint32_t scrubs[VGPU_GPU_MAX_VFS]; /* requested by the core, not yet passed to STATE */
	struct gpu_memory_piece piece;
	struct engine_request *change; /* the change under way, or NULL */
	struct engine_request *asked;  /* the change being begun, or NULL */
	uint32_t last_id;	       /* number of the last change */
	bool placed;		       /* PLACE was carried out; its event is due, with */
	int status;		       /* this result */
	int lost;		       /* negative: the GPU is gone */
};

/* Starts with the memory of a GPU that was just opened, before the core knows its VFs. CONFIG and
 * FOUND are read only now. */
void gpu_memory_open(struct gpu_memory *h, const struct vgpu_memory_face *ops,
		     struct vgpu_driver *driver, const struct vgpu_driver_caps *caps,
		     const struct vgpu_driver_found *found,
		     const struct vgpu_driver_config *config);
/* Ends it when the GPU is lost; answers a change under way with -ENODEV. */
void gpu_memory_close(struct gpu_memory *h);

/* Requests that a VF's memory be cleared: exactly one VGPU_EV_SCRUBBED follows. To be called from
 * within a step of the core. */
void gpu_memory_scrub(struct gpu_memory *h, uint32_t vf);
/* To be called after each step of the core: the VFs may have changed. */
void gpu_memory_stepped(struct gpu_memory *h);
/* Begins a change, and answers it now or later. One change at a time: a second one gets -EBUSY. */
void gpu_memory_begin(struct gpu_memory *h, struct engine_request *request, vgpu_nsec now);
/* Reports the state of the VFs to the memory reducer at once. */
void gpu_memory_report(struct gpu_memory *h, vgpu_nsec now);
/* Does all due work. Returns 0, or a negative errno if the GPU is lost. */
int gpu_memory_run(struct gpu_memory *h, vgpu_nsec now);
/* Returns when gpu_memory_run is due next, CLOCK_MONOTONIC; 0: at once. */
vgpu_nsec gpu_memory_deadline(const struct gpu_memory *h);
