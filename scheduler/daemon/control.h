/* SPDX-License-Identifier: MIT */
/*
 * The control thread: serves the control socket's clients and handles what the engines report. One
 * request is one line of JSON, {"id": ANY, "method": NAME, "args": {...}}; so is its answer, {"id":
 * ..., "result": ...} or {"id": ..., "error": {"code": NAME, "message": TEXT}}. docs/protocol.md
 * describes the protocol.
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
	uint64_t n; /* records ever added; the last `size` of them are here */
};

/* What the control thread knows of a GPU. */
struct gpu {
	struct gpu_config *config;
	struct engine *engine;
	struct control *control;
	struct event *readable;
	uint32_t under_way;	    /* requests at the engine and in the outbox */
	struct call *outbox;	    /* calls that wait until the engine has room */
	struct call *changes;	    /* of policy and parameters, in order; see change.h */
	bool change_sent;	    /* the first of them is at the engine */
	bool changing;		    /* change_run is running: do not enter it again */
	vgpu_nsec policy_since;	    /* when the policy in force took over, CLOCK_MONOTONIC */
	struct record_ring history; /* all records */
	struct record_ring events;  /* the rare ones, for 'vgpuctl events' */
	const char *trouble;	    /* engine_trouble, as last logged */
	struct lease leases[VGPU_GPU_MAX_VFS];
	uint32_t in_use;  /* bitmap of VFs whose guest driver is up or initialising */
	uint32_t unsized; /* bitmap of VFs that must still get their usual memory */
	uint64_t logged;  /* messages in this second, for the rate limit */
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
	struct call *calls;    /* under way, of all clients, also of disconnected ones */
	uint32_t n_clients[2]; /* of the control socket, and of the hook socket */
	unsigned group;	       /* its gid; (gid_t)-1: it does not exist */
	char refused[320];     /* why a running VM got no VF, as last logged */
};

struct call;
/* Prepares a change: see change_begin. */
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
	struct client *client; /* NULL: none, or disconnected */
	struct json_object *id, *args;
	const struct method *method;
	struct gpu *gpu;
	/* Takes the engine's answer; NULL: the client gets it. */
	void (*then)(struct call *call);
	struct call *next_out; /* the next one in the GPU's outbox */
	/* Of a change (change.h): what prepares it, how often it did, and until when it may
	 * wait. */
	change_make *make;
	struct call *next_change;
	uint32_t tries;
	vgpu_nsec until;
	uint32_t vf;
	struct claim_vf *claimed;	 /* what a running VM claims; the call frees it */
	struct reservation *reservation; /* the call frees it */
	struct scrape *scrape;		 /* of metrics.c, for which the call looks at a GPU */
	struct engine_request request;
	struct engine_snapshot snapshot;
	/* new values, which the engine reads while the call is under way */
	const struct vgpu_policy_ops *policy; /* the policy that the client named, or NULL */
	int64_t params[VGPU_MAX_PARAMS];
	int64_t vf_params[VGPU_GPU_MAX_VFS][VGPU_MAX_PARAMS];
};

/* One row for each method: who may call it, its arguments, and its help. */
struct method {
	const char *name;
	enum access access;
	const char *help;
	struct arg args[5]; /* ends at a NULL name */
	/* Begins the call: answers it, or sends it to an engine. Returns 0, or -errno with the
	 * reason in ERR; the caller then answers and frees the call. */
	int (*begin)(struct control *control, struct call *call, struct vgpu_error *err);
	/* Makes the result from the engine's answer; the caller frees it. NULL stands for {}. */
	struct json_object *(*finish)(struct call *call);
};

extern const struct method methods[];

/* Answers a call with RESULT, which it frees (NULL: {}), and frees the call. */
void call_answer(struct call *call, struct json_object *result);
/* Makes a call that no client waits for; NULL: out of memory. */
struct call *call_new(struct control *control, struct gpu *gpu);
void call_fail(struct call *call, int r, const char *text);
/* Frees a call without an answer. */
void call_drop(struct call *call);
/* The call's request was answered or refused: calls call->then, or answers the client. */
void call_over(struct call *call);
/* Gets the PF's PCI address from the GPU's device ("sysfs:ADDRESS", "vfio:ADDRESS,..."). Returns
 * false if it has none. */
bool gpu_pf_address(const struct gpu *gpu, char out[PCI_ADDRESS_SIZE]);
/* Sets call->gpu and *VF from the call's arguments. Return 0, or -errno with the reason in ERR. */
int call_find_gpu(struct control *control, struct call *call, struct vgpu_error *err);
int call_find_vf(struct call *call, uint32_t *vf, struct vgpu_error *err);
/* Returns the argument NAME, or OTHERWISE if it was not given. */
int64_t call_int(const struct call *call, const char *name, int64_t otherwise);
/* Sends the call's request to the engine of its GPU, now or as soon as the engine has room. */
void call_queue(struct call *call);
/* Does the same for a client's request. Returns 0, or -EAGAIN if the method only reads and many
 * requests to this engine are under way. */
int call_send(struct call *call, struct vgpu_error *err);

/* Checks ARGS against a method's table. Returns 0, or -EINVAL with the reason in ERR. */
int method_check(const struct method *method, struct json_object *args, struct vgpu_error *err);
const struct method *method_find(const char *name);

/* Starts to listen on the control socket and the hook's. Returns 0, or -errno with the reason in
 * ERR. */
int control_start(struct control *control, struct config *config, struct vgpu_error *err);
/* Adds a GPU whose engine has started; ENGINE becomes CONTROL's. Returns 0 or -ENOMEM. */
int control_add(struct control *control, struct gpu_config *config, struct engine *engine);
/* Waits until the changes that were begun before the event loop runs are over, at most 5 s. */
void control_settle(struct control *control);
/* Drops all clients, stops the engines, and closes the sockets. */
void control_stop(struct control *control);

#endif
