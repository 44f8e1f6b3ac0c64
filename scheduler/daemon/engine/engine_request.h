/* SPDX-License-Identifier: MIT */
/* The data between the control thread and an engine: configuration, requests, and views. */
#pragma once

#include "histogram.h"
#include "vgpu/core.h"
#include "vgpu/driver.h"
#include "vgpu/governor.h"
#include "vgpu/memory_step.h"
#include "vgpu/param.h"

/* A policy with the values of its own parameters and of each VF's. */
struct policy_values {
	const struct vgpu_policy_ops *policy;
	int64_t params[VGPU_MAX_PARAMS];
	int64_t vf_params[VGPU_GPU_MAX_VFS][VGPU_MAX_PARAMS];
};

/* The core's policy and values, as last published. New parameters are for the next policy: the one
 * in force, unless a change of policy waits for its world switch. */
struct engine_policy {
	struct policy_values in_force, to_come;
	bool change_waits;
	bool opened;		      /* the GPU was opened at least once */
	char lost_why[200];	      /* why it was last lost, or cannot be opened */
	struct vgpu_driver_caps caps; /* abilities of the GPU when it was last opened */
};

struct engine_config {
	const struct vgpu_driver_ops *ops; /* NULL: the registry finds the driver by DEVICE */
	struct vgpu_driver_config driver;
	struct vgpu_core_config core;
	bool lone_slice_by_kind;    /* `core`'s lone_slice depends on how the GPU preempts */
	struct policy_values begin; /* the values that the core starts with */
	bool realtime;
	vgpu_nsec spin;	       /* busy-wait this long before the end of each slice; 0: sleep */
	vgpu_nsec epoch;       /* shortest epoch of swapping */
	vgpu_vf_set swappable; /* VFs that are swapped even if they have a guarantee */
};

/* The service of a VF of a governed GPU, among those that always had work. */
struct engine_share {
	bool known; /* it had work in the whole span */
	uint32_t promised_ppm, served_ppm;
};

/* The complete state of a GPU at one instant. */
struct engine_snapshot {
	vgpu_nsec now;
	bool lost; /* the device does not answer, and the engine looks for it */
	char lost_why[200];
	struct vgpu_driver_caps caps;
	struct vgpu_driver_found found; /* with the present partitions */
	uint32_t n_extents;
	struct vgpu_memory_extent extents[VGPU_MEMORY_EXTENTS];
	struct vgpu_memory_counters memory;
	vgpu_vf_set pinned;	 /* never swapped */
	vgpu_nsec epoch, waited; /* present epoch of swapping, and the longest wait of a VF */
	struct vgpu_core_view core;
	uint32_t n_vfs;
	struct vgpu_vf_view vfs[VGPU_GPU_MAX_VFS];
	bool governed; /* the GPU's firmware schedules; the next members describe that */
	struct vgpu_governor_view governor;
	struct vgpu_governed_vf_view governed_vfs[VGPU_GPU_MAX_VFS];
	bool declared; /* the GPU has policies of its own; the next members describe that */
	struct vgpu_observation observed;
	vgpu_nsec span; /* the span that SHARES cover */
	struct engine_share shares[VGPU_GPU_MAX_VFS];
	struct histogram lateness;   /* from IDLE's planned instant to its issue */
	struct histogram switches;   /* from IDLE acknowledged to the next RUN acknowledged */
	struct histogram preemption; /* from IDLE issued to its acknowledgement */
	struct histogram decisions;  /* time of one event in core and policy */
	char warning[256];	     /* the policy's; "": none */
	uint64_t steps;
	struct vgpu_spent spent; /* for GPUs that count */
	vgpu_nsec spun;		 /* time that the engine thread spent busy-waiting */
	bool realtime;		 /* SCHED_FIFO was granted */
};

/* SEAT: gives the VF of EVENT to process `code`, which started at `value`, with memory.size bytes
 * of memory. EXPEL: an EVENT for a VF that nobody has any more, whose connections end first. */
enum engine_ask { ENGINE_EVENT = 0, ENGINE_SNAPSHOT, ENGINE_MEMORY, ENGINE_SEAT, ENGINE_EXPEL };

/*
 * A request to the engine. It belongs to the engine from engine_send until engine_receive returns
 * it. The next rounds of the engine's loop answer all requests but changes of memory; they refuse
 * what is not possible now. With KEEP, the values for a lost GPU are kept until it returns. RESULT
 * is that of vgpu_core_step, or -ENODEV: the GPU is lost; -E2BIG: the policy needs more memory than
 * the engine has for it.
 */
struct engine_request {
	enum engine_ask ask;
	struct vgpu_event event;
	bool keep;
	struct engine_snapshot
		*snapshot; /* filled in by the engine; with ENGINE_MEMORY it may be NULL */
	struct vgpu_memory_change memory;
	struct vgpu_memory_plan plan; /* the answer to it */
	int result;
	char why[sizeof(((struct vgpu_error *)NULL)->text)];
	void *data; /* the sender's own data */
};
