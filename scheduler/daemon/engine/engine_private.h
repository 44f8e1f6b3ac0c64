/* SPDX-License-Identifier: MIT */
/* An engine, for its own files. Owned by the engine thread unless noted. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine_request.h"
#include "gpu_memory.h"
#include "latest.h"
#include "spsc.h"
#include "trail.h"
#include "vgpu/record.h"

#define LOCAL_EVENTS 1024u
#define ENGINE_REQUESTS 64u /* largest number in progress; a power of two */

struct engine;
struct governed;
struct declared;

/* The part that decides how a GPU's time is used: the core, or the governor. */
struct engine_time {
	bool moves_memory; /* VFs can be taken off the engine to change partitions */
	/* Begins with config.begin. 0, or -errno with the reason in out.why, or NULL. */
	int (*build)(struct engine *e);
	/* Does all due work, and returns when it must be called again. Negative: the GPU is
	 * lost. */
	vgpu_nsec (*deadline)(const struct engine *e);
	int (*keep)(struct engine *e);
	/* Steps with an event of the driver. */
	int (*step)(struct engine *e, struct vgpu_event *event);
	/* Carries out the event of a request, and sets its result. */
	void (*change)(struct engine *e, struct engine_request *request);
	/* Begins to stop; returns whether the GPU can be left in its present state. */
	void (*stop)(struct engine *e);
	bool (*at_rest)(struct engine *e);
	/* Returns whether busy-waiting for AT is worthwhile. NULL: never; call
	 * engine_is_planned. */
	bool (*is_planned)(const struct engine *e, vgpu_nsec at);
	/* Brings the times in a snapshot up to date (NULL: they are as of the last reading); then
	 * fills it in. */
	void (*catch_up)(struct engine *e);
	void (*view)(struct engine *e, struct engine_snapshot *s);
	/* Reads policy and values: those to come, or those in force. Returns whether a change of
	 * policy waits. */
	bool (*values)(const struct engine *e, bool to_come, struct policy_values *out);
	/* Reads each VF's time on the engine up to NOW. False: unknown (NULL: always). */
	bool (*on_engine)(struct engine *e, vgpu_nsec had[VGPU_GPU_MAX_VFS], vgpu_nsec now);
};
extern const struct engine_time engine_switched, engine_governed, engine_declared;

/* CPU time that the processes of VFs may take, in addition to their time on the engine. */
struct engine_spent {
	struct vgpu_spent now;
	vgpu_nsec read_at;		 /* 0: never */
	int64_t left[VGPU_GPU_MAX_VFS];	 /* CPU time left to the VF's processes */
	vgpu_nsec had[VGPU_GPU_MAX_VFS]; /* time on the engine at READ_AT */
	vgpu_vf_set above;		 /* VFs that took more than their share recently */
};

struct engine {
	struct engine_config config;
	const struct vgpu_driver_ops *ops; /* NULL: no driver found for the device yet */
	struct vgpu_driver *driver;	   /* NULL: lost */
	bool opened;			   /* opened at least once: caps and found are valid */
	uint32_t failures;		   /* consecutive failed attempts to open it */
	struct vgpu_driver_caps caps;
	struct vgpu_driver_found found;
	vgpu_nsec reopen_at;
	struct vgpu_error lost_why;

	const struct engine_time *time; /* NULL: the GPU was never opened */
	struct governed
		*governed; /* state of engine_governed; NULL: the GPU was never of that kind */
	struct declared *declared; /* state of engine_declared, likewise */
	struct vgpu_core *core;
	struct recorder *recorder;    /* also owns the memory of the core and its policies */
	bool is_set_up;		      /* the core has its policy and all its VFs */
	bool was_set_up;	      /* at least once */
	bool slot_used[RECORD_SLOTS]; /* used by the policy in force, or by the next one */
	struct latest policy;	      /* struct engine_policy */
	bool policy_changed;	      /* changed since POLICY was published */
	bool is_plugin;		      /* the policy in force is not built in */

	struct vgpu_event local[LOCAL_EVENTS]; /* events of the driver that are not stepped yet */
	uint32_t local_head, local_tail;
	struct gpu_memory memory;
	struct vgpu_output out;

	pthread_t thread;
	int epoll, timer, wake, tell, driver_fd;
	vgpu_nsec timer_at;
	_Atomic bool quit, look;
	_Atomic uint32_t rounds;
	uint32_t seen_rounds; /* for engine_is_alive */
	uint32_t under_way;   /* requests in progress; owned by the thread that sends them */
	bool put_off;	      /* a request was deferred for a near deadline */
	bool realtime, told;
	_Atomic(const char *) says; /* a constant message for the log, logged N_SAYS times */
	_Atomic uint32_t n_says;
	_Atomic(const char *) trouble; /* why the device is lost; NULL: it is not */
	bool device_speaks;	       /* the driver's descriptor is readable */
	struct spsc requests, replies;
	struct trail records;

	struct engine_spent spent;
	struct histogram lateness, switches, preemption, decisions;
	vgpu_nsec slow_since; /* when the first of n_slow slow decisions was made */
	uint32_t n_slow;
	vgpu_nsec stepped_at; /* the core's time */
	vgpu_nsec spun;	      /* time spent busy-waiting */
	vgpu_nsec idle_issued, idle_acked;
	uint64_t steps;
};

/* Queues a driver's event until the current step is done: the core is not reentrant. DATA is the
 * engine. */
void engine_sink(void *data, const struct vgpu_event *event);
/* Records why a device can no longer be used, from the errors of vfio_check and the driver. */
const char *engine_why_lost(int r);
/* Closes the device, and looks for it again later. */
void engine_let_go(struct engine *e, bool lost);
void engine_try_later(struct engine *e);
/* The device is gone, with the error R: saves the core's values for the next one. */
void engine_lose(struct engine *e, int r);
/* Steps the core with one event and carries out its actions. Returns the core's result. */
int engine_step(struct engine *e, struct vgpu_event *event);
/* Steps the core with the events that the driver has delivered meanwhile. */
void engine_drain(struct engine *e);
/* Returns zeroed memory for a policy. NULL: both slots are in use, or the policy needs more. */
void *engine_take_slot(struct engine *e, const struct vgpu_policy_ops *policy);

/* Returns whether the engine plans to act at AT, which is not a time-out. */
bool engine_is_planned(const struct engine *e, vgpu_nsec at);
/* Dispatches the device's events, and steps with them. Negative: the device is gone. */
int engine_look(struct engine *e);
/* Takes over the driver's last reading of the VFs' CPU time, and records which of them exceed their
 * share. */
void engine_look_at_spent(struct engine *e);
/* Publishes the policy to the control thread, if it has changed. */
void engine_publish(struct engine *e);

/* Answers the request with R, a negative errno, and the reason. */
__attribute__((format(printf, 3, 4))) void engine_refuse(struct engine_request *request, int r,
							 const char *format, ...);
/* Free the state of engines of these kinds; NULL is allowed. */
void governed_free(struct governed *g);
void declared_free(struct declared *d);
/* Logs TEXT, a constant; NULL: nothing. */
void engine_say(struct engine *e, const char *text);
/* Adds a record with the present time. */
void engine_record(struct engine *e, enum vgpu_record_type type, uint32_t vf, uint32_t code,
		   uint64_t a, uint64_t b);
/* Answers one request, unless it must wait for a near deadline of the core. */
void engine_serve(struct engine *e);
/* Answers a change of partitions that has ended: DATA is the engine. */
void engine_changed(void *data, struct engine_request *request);
