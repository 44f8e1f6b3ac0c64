/* SPDX-License-Identifier: MIT */
/*
 * Calls: requests of clients, and of the control thread itself, from their begin to their answer.
 * Control thread.
 */
#ifndef DAEMON_CALL_H
#define DAEMON_CALL_H

#include <json-c/json.h>

#include "engine/engine_request.h"
#include "state.h"

struct call;
/* Prepares a change: see change_begin. */
typedef int change_make(struct call *call, const struct policy_values *now, struct vgpu_error *err);

/* Who may call a method: readers, root, both at the control socket and the hook's; whoever the
 * tenants' door admits; or everybody at each. */
enum access { ACCESS_READ, ACCESS_CHANGE, ACCESS_TENANT, ACCESS_ANY };
enum arg_type { ARG_STRING, ARG_INT, ARG_OBJECT, ARG_BOOL };

struct arg {
	const char *name;
	enum arg_type type;
	int64_t min, max; /* of a number; a text has at least MIN bytes */
	bool required;
	const char *help;
};

/* One request under way. */
struct call {
	struct call *next;
	struct control *control;
	struct client *client; /* NULL: none, or disconnected */
	bool of_reader;	       /* its work counts against the readers' share (share.h) */
	struct piece piece;    /* to handle the engine's answer then */
	struct json_object *id, *args;
	const struct method *method;
	struct gpu *gpu;
	/* Handles the engine's answer; NULL: the client gets the answer. */
	void (*then)(struct call *call);
	struct call *next_out; /* the next one in the GPU's outbox */
	/* Of a change (change.h): what prepares it, how often it did, and until when it may
	 * wait. */
	change_make *make;
	struct call *next_change;
	uint32_t tries;
	vgpu_nsec until;
	bool again; /* of live.c: it was refused, and waits behind the others now */
	uint32_t vf;
	char *refusal; /* the reason of a refusal, if it is a long one; the call frees it */
	/* What the feature works on that began the call: a reservation, a reload, ... FREE_JOB
	 * frees it with the call; NULL: it is somebody else's. */
	void *job;
	void (*free_job)(void *job);
	bool apart; /* it is no change that others wait for: its VFs are its own */
	struct engine_request request;
	struct engine_snapshot snapshot;
	/* new values, which the engine reads while the call is under way */
	const struct vgpu_policy_ops *policy; /* the policy that the client named, or NULL */
	bool would_be; /* of policy.explain: the snapshot has promises of a trial */
	int64_t params[VGPU_MAX_PARAMS];
	int64_t vf_params[VGPU_GPU_MAX_VFS][VGPU_MAX_PARAMS];
};

/* One row for each method: who may call it, its arguments, and its help. */
struct method {
	const char *name;
	enum access access;
	const char *help;
	struct arg args[7]; /* ends at a NULL name */
	/* Begins the call: answers it, or sends it to an engine. Returns 0, or -errno with the
	 * reason in ERR; the caller then answers and frees the call. */
	int (*begin)(struct control *control, struct call *call, struct vgpu_error *err);
	/* Makes the result from the engine's answer; the caller frees it. NULL stands for {}. */
	struct json_object *(*finish)(struct call *call);
};

/* Answers a call with RESULT, which it frees (NULL: {}), and frees the call. */
void call_answer(struct call *call, struct json_object *result);
/* Makes a call that no client waits for; NULL: out of memory. */
struct call *call_new(struct control *control, struct gpu *gpu);
void call_fail(struct call *call, int r, const char *text);
/* Frees a call without an answer. */
void call_drop(struct call *call);
/* The call's request was answered or refused: calls call->then, or answers the client. */
void call_over(struct call *call);
/* The engine has returned the call's request: counts it, and sends others. */
void call_returned(struct call *call);
/* Does call_over, for readers in their share. */
void call_answered(struct call *call);
/* Answers a client with an error, for a request that has not become a call. ID may be NULL. */
void call_refuse(struct client *client, struct json_object *id, int r, const char *text);
/* Sends the call's request to the engine of its GPU, now or as soon as the engine has room. */
void call_queue(struct call *call);
/* Returns 0 if there is room for a client's request to its GPU; -EAGAIN if many requests that only
 * read, or many changes, are under way. */
int call_admit(const struct call *call, struct vgpu_error *err);
/* Sends a client's request, if there is room for it: see call_admit. */
int call_send(struct call *call, struct vgpu_error *err);
/* Sends as many of a GPU's waiting requests as its engine has room for. */
void call_send_waiting(struct gpu *gpu);

#endif
