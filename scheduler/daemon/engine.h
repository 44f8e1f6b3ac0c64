/* SPDX-License-Identifier: MIT */
/*
 * The engine thread of a GPU: the loop around the core. It waits on an absolute timer, the driver
 * and requests, makes events of what happens, steps the core, and carries the actions out. It never
 * logs, formats, allocates or takes a lock in doing so; what others want of it, and what it has to
 * tell, crosses in bounded queues.
 */
#ifndef DAEMON_ENGINE_H
#define DAEMON_ENGINE_H

#include "gpu_memory.h"
#include "histogram.h"
#include "vgpu/core.h"
#include "vgpu/driver.h"
#include "vgpu/record.h"

/* A policy, and the parameters that it has: its own, and those of each VF. */
struct policy_values {
	const struct vgpu_policy_ops *policy;
	int64_t params[VGPU_MAX_PARAMS];
	int64_t vf_params[VGPU_GPU_MAX_VFS][VGPU_MAX_PARAMS];
};

/* What the core has, as it last said. New parameters are for the policy to come: the one in force,
 * unless a change of policy waits for its switch. */
struct engine_policy {
	struct policy_values in_force, to_come;
	bool change_waits;
};

struct engine_config {
	const struct vgpu_driver_ops *ops; /* NULL: the registry knows whose device it is */
	struct vgpu_driver_config driver;
	struct vgpu_core_config core;
	struct policy_values begin; /* what the core is set up with */
	bool realtime;
	vgpu_nsec epoch;    /* of swapping, at least */
	uint32_t swappable; /* VFs that are, whatever their policy guarantees them */
};

/* Everything there is to show of a GPU, at one instant. */
struct engine_snapshot {
	vgpu_nsec now;
	bool lost; /* the device does not answer; it is being looked for */
	char lost_why[200];
	struct vgpu_driver_caps caps;
	struct vgpu_driver_found found; /* its partition as it is now */
	uint32_t n_extents;
	struct vgpu_memory_extent extents[VGPU_MEMORY_EXTENTS];
	struct vgpu_memory_counters memory;
	uint32_t pinned;	 /* VFs that are not swapped */
	vgpu_nsec epoch, waited; /* of swapping, as it is; and the longest that a VF has waited */
	struct vgpu_core_view core;
	uint32_t n_vfs;
	struct vgpu_vf_view vfs[VGPU_GPU_MAX_VFS];
	struct histogram lateness;   /* IDLE issued, after its planned instant */
	struct histogram switches;   /* IDLE acknowledged to the next RUN acknowledged */
	struct histogram preemption; /* IDLE issued to acknowledged */
	struct histogram decisions;  /* one event through core and policy */
	char warning[256];	     /* the policy's, or "" */
	uint64_t records_lost, steps;
	bool realtime; /* SCHED_FIFO was granted */
};

enum engine_ask { ENGINE_EVENT = 0, ENGINE_SNAPSHOT, ENGINE_MEMORY };

/*
 * Sent to the engine and back. It is the sender's until it is sent, and again when it is back. All
 * but changes of memory are answered by the next rounds of the engine's loop; what cannot be done
 * now is refused, never kept. RESULT beside what vgpu_core_step says: -ENODEV, the GPU is lost;
 * -E2BIG, the policy wants more memory than there is.
 */
struct engine_request {
	enum engine_ask ask;
	struct vgpu_event event;
	struct engine_snapshot *snapshot; /* with ENGINE_MEMORY, it may be NULL */
	struct vgpu_memory_change memory;
	struct vgpu_memory_plan plan; /* of that */
	int result;
	char why[sizeof(((struct vgpu_error *)NULL)->text)];
	void *data; /* the sender's */
};

struct engine;

/*
 * Opens the GPU and starts its thread. CONFIG is copied but for the strings and tables it points
 * to. 0 or -errno with the reason.
 */
int engine_start(struct engine **out, const struct engine_config *config, struct vgpu_error *err);

/* Lets the switch in progress come to its end, and leaves the GPU as it is then: tenants keep
 * running. Frees the engine. */
void engine_stop(struct engine *engine);

/* Looks for a lost device at once: it may be back. Any thread. */
void engine_look(struct engine *engine);
/* Whether its thread has come round since the last call; asks it to. One that looks for a lost
 * device may take its time. For one thread. */
bool engine_is_alive(struct engine *engine);
/* Why the device is lost, in constant words; NULL: it is not. Any thread. */
const char *engine_trouble(const struct engine *engine);
/* Whether its thread runs as SCHED_FIFO. */
bool engine_is_realtime(const struct engine *engine);

/* The other end of the queues, for one thread. engine_send: false when as many requests are under
 * way as there may be: each of them has room for its answer, so that none is ever dropped. */
bool engine_send(struct engine *engine, struct engine_request *request);
struct engine_request *engine_receive(struct engine *engine);
bool engine_record(struct engine *engine, struct vgpu_record *out);
/* Which policy it has, and its parameters; for the same thread, and valid until it asks again. What
 * a request has changed is in it when that is back. */
const struct engine_policy *engine_policy(struct engine *engine);
/* The last events, as recorder_copy; any thread. */
int engine_recording(struct engine *engine, struct recording *out);
/* Readable when there is something to receive. */
int engine_fd(const struct engine *engine);

#endif
