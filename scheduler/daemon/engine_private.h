/* SPDX-License-Identifier: MIT */
/* An engine, for its own files. All but what is said to be another's is the engine thread's. */
#ifndef DAEMON_ENGINE_PRIVATE_H
#define DAEMON_ENGINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine.h"
#include "latest.h"
#include "spsc.h"
#include "vgpu/record.h"

#define LOCAL_EVENTS 512u
#define ENGINE_REQUESTS 64u /* under way at a time; a power of two */

struct engine {
	struct engine_config config;
	const struct vgpu_driver_ops *ops;
	struct vgpu_driver *driver; /* NULL: lost */
	struct vgpu_driver_caps caps;
	struct vgpu_driver_found found;
	vgpu_nsec reopen_at;
	struct vgpu_error lost_why;

	struct vgpu_core *core;
	struct recorder *recorder;    /* and the memory of the core and its policies */
	bool is_set_up;		      /* the core is, with all its VFs */
	bool slot_used[RECORD_SLOTS]; /* by the policy in force, and the one in waiting */
	struct latest policy;	      /* struct engine_policy, of the core */
	bool policy_changed;	      /* since it was published */
	bool is_plugin;		      /* the policy in force is */

	struct vgpu_event local[LOCAL_EVENTS]; /* what the driver has handed out */
	uint32_t local_head, local_tail;
	struct gpu_memory memory;
	struct vgpu_output out;

	pthread_t thread;
	int epoll, timer, wake, tell, driver_fd;
	vgpu_nsec timer_at;
	_Atomic bool quit, look;
	_Atomic uint32_t rounds;
	uint32_t seen_rounds; /* by who asks whether it is alive */
	uint32_t under_way;   /* requests, by who sends them */
	bool put_off;	      /* a request, for a deadline that is near */
	bool realtime, told;
	_Atomic(const char *) trouble; /* why the device is lost; NULL: it is not */
	bool device_speaks;	       /* the driver's descriptor is readable */
	struct spsc requests, replies, records;

	struct histogram lateness, switches, preemption, decisions;
	vgpu_nsec slow_since; /* the first of n_slow decisions that took too long */
	uint32_t n_slow;
	vgpu_nsec idle_issued, idle_acked;
	uint64_t records_lost, steps;
};

/* One event through the core, and what follows from it. What the core says of it. */
int engine_step(struct engine *e, struct vgpu_event *event);
/* The events that the driver has handed out meanwhile, through the core. */
void engine_drain(struct engine *e);
/* Zeroed memory for a policy; NULL: both slots are in use, or it wants more. */
void *engine_take_slot(struct engine *e, const struct vgpu_policy_ops *policy);

/* What the core has of policies, as it is to come, or as it is in force. */
void engine_read_values(const struct engine *e, bool to_come, struct policy_values *out);
/* Lets the other thread see which policy there is, if that has changed. */
void engine_publish(struct engine *e);

/* Answers one request, if there is one and it need not wait for a deadline of the core. */
void engine_serve(struct engine *e);
/* A change of partitions has come to its end: DATA is the engine. */
void engine_changed(void *data, struct engine_request *request);

#endif
