/* SPDX-License-Identifier: MIT */
/*
 * The loop around vgpu/memory_step.h: carries out what it asks for, through the driver and the
 * core, and makes events of what comes of it. What the GPU has cleared and copied is looked at here
 * and there before it is believed. Engine thread.
 */
#ifndef DAEMON_GPU_MEMORY_H
#define DAEMON_GPU_MEMORY_H

#include "vgpu/driver.h"
#include "vgpu/memory_step.h"

struct engine_request;

/* A clear or a copy that is under way at the GPU. */
struct gpu_memory_piece {
	bool at_work;
	bool ours; /* and not what a predecessor has begun */
	bool copies;
	struct vgpu_extent where;
	uint64_t from;
	vgpu_nsec began, look_at;
};

struct gpu_memory {
	/* The owner's to set, before open. */
	vgpu_event_sink *sink; /* to the core; it must have heard of all before run and begin */
	void (*reply)(void *data, struct engine_request *request);
	void *data;
	const struct vgpu_core *core;
	void *memory;		   /* vgpu_memory_state_size() bytes, zeroed at first */
	struct recorder *recorder; /* whose MEMORY is; NULL: nothing is recorded */
	vgpu_nsec epoch;
	uint32_t swappable;

	const struct vgpu_memory_face *ops;
	struct vgpu_driver *driver; /* NULL: it is not open */
	struct vgpu_memory_state *state;
	struct vgpu_memory_output out;
	uint32_t n_vfs;
	uint64_t granule;
	bool swaps;
	struct vgpu_memory_vf known[VGPU_GPU_MAX_VFS]; /* as STATE has been told */
	uint32_t telling;		   /* VFs of which the core is being told something */
	bool engine_works, late;	   /* LATE: there may be something new to tell */
	vgpu_nsec tell_at;		   /* not before that, if nobody waits for it */
	uint32_t scrubs[VGPU_GPU_MAX_VFS]; /* asked for, and not yet passed on */
	struct gpu_memory_piece piece;
	struct engine_request *change; /* under way, or NULL */
	struct engine_request *asked;  /* that is being begun */
	uint32_t last_id;	       /* of changes: that of ASKED, and the last one's */
	bool placed;		       /* an answer to PLACE is due: */
	int status;		       /* this */
	int lost;		       /* negative: the GPU is gone */
};

/* The memory of a GPU that has just been opened, and whose VFs the core does not know yet. */
void gpu_memory_open(struct gpu_memory *h, const struct vgpu_memory_face *ops,
		     struct vgpu_driver *driver, const struct vgpu_driver_caps *caps,
		     const struct vgpu_driver_found *found,
		     const struct vgpu_driver_config *config);
/* The GPU is no longer there; a change under way is answered. */
void gpu_memory_close(struct gpu_memory *h);

/* The core wants a VF's memory cleared: exactly one VGPU_EV_SCRUBBED follows. From within its step.
 */
void gpu_memory_scrub(struct gpu_memory *h, uint32_t vf);
/* The core has been stepped: VFs may be other than they were. */
void gpu_memory_stepped(struct gpu_memory *h);
/* Begins a change: it is answered now or later. One at a time; -EBUSY for a second. */
void gpu_memory_begin(struct gpu_memory *h, struct engine_request *request, vgpu_nsec now);
/* Tells at once how VFs are. */
void gpu_memory_look(struct gpu_memory *h, vgpu_nsec now);
/* Goes on with what is to be done. Negative: the GPU is gone. */
int gpu_memory_run(struct gpu_memory *h, vgpu_nsec now);
/* When gpu_memory_run is due. */
vgpu_nsec gpu_memory_deadline(const struct gpu_memory *h);

#endif
