/* SPDX-License-Identifier: MIT */
/*
 * The control thread: the socket, its clients, and what the engines tell. One request is one line
 * of JSON, {"id": ANY, "method": NAME, "args": {...}}; so is its answer, {"id": ..., "result": ...}
 * or {"id": ..., "error": {"code": NAME, "message": TEXT}}. docs/protocol.md is the long form.
 */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include <event2/event.h>
#include <json-c/json.h>

#include "config.h"
#include "lease.h"
#include "vfio/pci.h"

#define HISTORY 32768u
#define EVENTS 1024u

struct record_ring {
	struct vgpu_record *records;
	uint32_t size;
	uint64_t n; /* ever; the last `size` of them are here */
};

/* A GPU, as the control thread has it. */
struct gpu {
	struct gpu_config *config;
	struct engine *engine;
	struct control *control;
	struct event *readable;
	uint32_t under_way;	    /* requests, with those in the outbox */
	struct call *outbox;	    /* that the engine has no room for */
	struct call *changes;	    /* of policy and parameters; the first is being made */
	bool change_sent;	    /* the first */
	bool changing;		    /* change_run is at work */
	vgpu_nsec policy_since;	    /* when its policy took over */
	struct record_ring history; /* everything */
	struct record_ring events;  /* what is rare, and what people want to know */
	const char *trouble;	    /* as last logged: engine_trouble */
	struct lease leases[VGPU_GPU_MAX_VFS];
	uint32_t in_use;  /* bitmap of VFs whose guest's driver is up, or comes up */
	uint32_t unsized; /* bitmap of VFs that shall get their usual memory */
	uint64_t logged;  /* in this second; rate limit */
	uint64_t log_dropped;
};

struct client;
struct control {
	struct config *config;
	struct event_base *base;
	struct evconnlistener *listener, *hook_listener;
	struct event *tick, *second;
	uint32_t n_gpus;
	struct gpu gpus[CONFIG_MAX_GPUS];
	struct client *clients;
	struct call *calls;    /* under way, of all clients, also of those that have gone */
	uint32_t n_clients[2]; /* of the control socket, and of the hook's */
	unsigned group;	       /* (gid_t)-1: there is no such group */
	char refused[320];     /* a VF for a VM that runs, and why, as last logged */
};

struct call;
/* Makes a change: see change.h. */
typedef int change_make(struct call *call, const struct policy_values *now, struct vgpu_error *err);

enum access { ACCESS_READ, ACCESS_CHANGE };
enum arg_type { ARG_STRING, ARG_INT, ARG_OBJECT, ARG_BOOL };

struct arg {
	const char *name;
	enum arg_type type;
	int64_t min, max;
	bool required;
	const char *help;
};

/* One request under way. */
struct call {
	struct call *next;
	struct control *control;
	struct client *client; /* NULL: has gone */
	struct json_object *id, *args;
	const struct method *method;
	struct gpu *gpu;
	/* The engine's answer goes there; NULL: it is the call's answer. */
	void (*then)(struct call *call);
	struct call *next_out; /* in the GPU's outbox */
	/* Of a change (change.h): how it is made, how often it was, and how long it may wait. */
	change_make *make;
	struct call *next_change;
	uint32_t tries;
	vgpu_nsec until;
	uint32_t vf;
	struct claim_vf *claimed;	 /* by a VM that runs; the call's */
	struct reservation *reservation; /* the call's */
	struct scrape *scrape;		 /* of who has asked for figures */
	struct engine_request request;
	struct engine_snapshot snapshot;
	/* new values, while the engine considers them */
	const struct vgpu_policy_ops *policy; /* the one that was named, or NULL */
	int64_t params[VGPU_MAX_PARAMS];
	int64_t vf_params[VGPU_GPU_MAX_VFS][VGPU_MAX_PARAMS];
};

/* One row for each method: who may call it, with what, and what it is for. */
struct method {
	const char *name;
	enum access access;
	const char *help;
	struct arg args[5]; /* ends at a NULL name */
	/* Begins the call: answers it, or sends it to an engine. 0, or -errno with the reason. */
	int (*begin)(struct control *control, struct call *call, struct vgpu_error *err);
	/* The engine has answered. Returns the result; NULL stands for {}. */
	struct json_object *(*finish)(struct call *call);
};

extern const struct method methods[];

/* Answers a call, and frees it. RESULT is taken over. */
void call_answer(struct call *call, struct json_object *result);
/* A call that no client waits for; NULL: out of memory. */
struct call *call_new(struct control *control, struct gpu *gpu);
void call_fail(struct call *call, int r, const char *text);
/* Ends a call that nobody waits for. */
void call_drop(struct call *call);
/* Its request has been answered, or refused: goes on with call->then, or answers the call. */
void call_over(struct call *call);
/* The PF's PCI address, of a GPU that has one ("sysfs:ADDRESS", "vfio:ADDRESS,..."). */
bool gpu_pf_address(const struct gpu *gpu, char out[PCI_ADDRESS_SIZE]);
/* Which GPU, and which VF of it, a call is about: call->gpu and *VF. 0, or -errno and why. */
int call_find_gpu(struct control *control, struct call *call, struct vgpu_error *err);
int call_find_vf(struct call *call, uint32_t *vf, struct vgpu_error *err);
/* An argument, or what there is OTHERWISE. */
int64_t call_int(const struct call *call, const char *name, int64_t otherwise);
/* Hands the call's request to the engine of its GPU, now or as soon as that has room for it. */
void call_queue(struct call *call);
/* The same for what a client has asked for; who only looks is refused, with -EAGAIN, while the
 * engine has much to do. */
int call_send(struct call *call, struct vgpu_error *err);

/* Checks ARGS against a method's table. */
int method_check(const struct method *method, struct json_object *args, struct vgpu_error *err);
const struct method *method_find(const char *name);

/* Makes the control socket; 0 or -errno with the reason. */
int control_start(struct control *control, struct config *config, struct vgpu_error *err);
/* Adds a GPU whose engine has started. */
int control_add(struct control *control, struct gpu_config *config, struct engine *engine);
/* Until the changes that were begun before the loop runs are over, or take too long. */
void control_settle(struct control *control);
void control_stop(struct control *control);

#endif
