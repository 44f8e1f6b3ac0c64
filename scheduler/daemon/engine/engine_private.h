/* SPDX-License-Identifier: MIT */
/* An engine, for its own files. Owned by the engine thread unless noted. */
#ifndef DAEMON_ENGINE_PRIVATE_H
#define DAEMON_ENGINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine_request.h"
#include "gpu_memory.h"
#include "latest.h"
#include "spsc.h"
#include "trail.h"
#include "vgpu/record.h"

#define LOCAL_EVENTS 1024u
#define ENGINE_REQUESTS 64u /* under way at a time; a power of two */

struct engine;
struct governed;
struct declared;

/* Who decides how the time of a GPU is spent: the core, or the governor. */
struct engine_time {
	bool moves_memory; /* VFs can be taken off the engine, so that partitions can change */
	/* Begins with config.begin. 0, or -errno with the reason in out.why, or NULL. */
	int (*build)(struct engine *e);
	/* Returns when keep() must be called; it does what is due. Negative: the GPU is lost. */
	vgpu_nsec (*deadline)(const struct engine *e);
	int (*keep)(struct engine *e);
	/* Steps with an event of the driver. */
	int (*step)(struct engine *e, struct vgpu_event *event);
	/* Carries out the event of a request, and sets its result. */
	void (*change)(struct engine *e, struct engine_request *request);
	/* Begins to stop; then tells whether the GPU can be left as it is. */
	void (*stop)(struct engine *e);
	bool (*at_rest)(struct engine *e);
	/* Returns whether AT is an instant for which it pays to wait on the CPU. NULL: none is;
	 * call engine_is_planned. */
	bool (*is_planned)(const struct engine *e, vgpu_nsec at);
	/* Brings to now what a snapshot says of time (NULL: it is as of the last reading); then
	 * fills it in. */
	void (*catch_up)(struct engine *e);
	void (*view)(struct engine *e, struct engine_snapshot *s);
	/* Reads policy and values: those to come, or those in force. Returns whether a change of
	 * policy waits. */
	bool (*values)(const struct engine *e, bool to_come, struct policy_values *out);
	/* Reads how long each VF has had the engine by NOW. False: nobody knows (NULL: ever). */
	bool (*on_engine)(struct engine *e, vgpu_nsec had[VGPU_GPU_MAX_VFS], vgpu_nsec now);
};
extern const struct engine_time engine_switched, engine_governed, engine_declared;

/* How much CPU time the processes of VFs may take, beside the time that they have the engine. */
struct engine_spent {
	struct vgpu_spent now;
	vgpu_nsec read_at;		 /* 0: never */
	int64_t left[VGPU_GPU_MAX_VFS];	 /* what they could have taken beyond what they have */
	vgpu_nsec had[VGPU_GPU_MAX_VFS]; /* time on the engine then */
	vgpu_vf_set above;		 /* VFs that took more than their shares lately */
};

struct engine {
	struct engine_config config;
	const struct vgpu_driver_ops *ops; /* NULL: no driver was found for the device yet */
	struct vgpu_driver *driver;	   /* NULL: lost */
	bool opened;			   /* at least once: caps and found are the GPU's */
	uint32_t failures;		   /* attempts to open it that failed in a row */
	struct vgpu_driver_caps caps;
	struct vgpu_driver_found found;
	vgpu_nsec reopen_at;
	struct vgpu_error lost_why;

	const struct engine_time *time; /* NULL: the GPU was never opened */
	struct governed *governed; /* engine_governed's; NULL: the GPU was never of that kind */
	struct declared *declared; /* engine_declared's, likewise */
	struct vgpu_core *core;
	struct recorder *recorder;    /* it also owns the memory of the core and its policies */
	bool is_set_up;		      /* the core has its policy and all its VFs */
	bool was_set_up;	      /* at least once */
	bool slot_used[RECORD_SLOTS]; /* by the policy in force, and by the one to come */
	struct latest policy;	      /* struct engine_policy */
	bool policy_changed;	      /* since POLICY was published */
	bool is_plugin;		      /* the policy in force is not built in */

	struct vgpu_event local[LOCAL_EVENTS]; /* the driver's events, not yet stepped */
	uint32_t local_head, local_tail;
	struct gpu_memory memory;
	struct vgpu_output out;

	pthread_t thread;
	int epoll, timer, wake, tell, driver_fd;
	vgpu_nsec timer_at;
	_Atomic bool quit, look;
	_Atomic uint32_t rounds;
	uint32_t seen_rounds; /* engine_is_alive's */
	uint32_t under_way;   /* requests; owned by the thread that sends them */
	bool put_off;	      /* a request waits for a near deadline */
	bool realtime, told;
	_Atomic(const char *) says; /* a constant text for the log, which was said N_SAYS times */
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
	vgpu_nsec spun;	      /* time waited on the CPU */
	vgpu_nsec idle_issued, idle_acked;
	uint64_t steps;
};

/* Queues a driver's event until the current step is done: the core is not entered twice. DATA is
 * the engine. */
void engine_sink(void *data, const struct vgpu_event *event);
/* Says why a device can no longer be used, by the errors of vfio_check and the driver. */
const char *engine_why_lost(int r);
/* Closes the device, and looks for it again later. */
void engine_let_go(struct engine *e, bool lost);
void engine_try_later(struct engine *e);
/* The device is gone, with the error R: keeps the values that the core has for the next one. */
void engine_lose(struct engine *e, int r);
/* Steps the core with one event and carries out its actions. Returns the core's result. */
int engine_step(struct engine *e, struct vgpu_event *event);
/* Steps the core with the events that the driver has delivered meanwhile. */
void engine_drain(struct engine *e);
/* Returns zeroed memory for a policy. NULL: both slots are in use, or the policy needs more. */
void *engine_take_slot(struct engine *e, const struct vgpu_policy_ops *policy);

/* Returns whether the engine plans to act at AT; it is no time-out. */
bool engine_is_planned(const struct engine *e, vgpu_nsec at);
/* Dispatches the device's events, and steps with them. Negative: the device is gone. */
int engine_look(struct engine *e);
/* Takes over what the driver has read of what VFs have spent, and records which of them take more
 * than their share. */
void engine_look_at_spent(struct engine *e);
/* Publishes the policy to the control thread, if it has changed. */
void engine_publish(struct engine *e);

/* Answers the request with R, a negative errno, and the reason. */
__attribute__((format(printf, 3, 4))) void engine_refuse(struct engine_request *request, int r,
							 const char *format, ...);
/* Free what engines of these kinds have; NULL is permitted. */
void governed_free(struct governed *g);
void declared_free(struct declared *d);
/* Says TEXT, a constant, in the log; NULL: nothing. */
void engine_say(struct engine *e, const char *text);
/* Adds a record of now. */
void engine_record(struct engine *e, enum vgpu_record_type type, uint32_t vf, uint32_t code,
		   uint64_t a, uint64_t b);
/* Answers one request, unless the core has a deadline so near that the request must wait. */
void engine_serve(struct engine *e);
/* Answers a change of partitions that has ended: DATA is the engine. */
void engine_changed(void *data, struct engine_request *request);

#endif
