/* SPDX-License-Identifier: MIT */
/*
 * Calls: requests of clients, and of the control thread itself, from beginning to answer. Control
 * thread.
 */
#pragma once

#include <json-c/json.h>

#include "engine/engine_request.h"
#include "state.h"

struct call;
/* Prepares a change: see change_begin. */
typedef int change_make(struct call *call, const struct policy_values *now, struct vgpu_error *err);

/* The callers of a method: readers; root; root at the control socket and the hook's; every caller
 * that the tenants' door admits; or everybody at each socket. */
enum access { ACCESS_READ, ACCESS_CHANGE, ACCESS_TENANT, ACCESS_ANY };
enum arg_type { ARG_STRING, ARG_INT, ARG_OBJECT, ARG_BOOL };

struct arg {
	const char *name;
	enum arg_type type;
	int64_t min, max; /* of a number; a text has at least MIN bytes */
	bool required;
	const char *help;
};

/* A request in progress. */
struct call {
	struct call *next;
	struct control *control;
	struct client *client; /* NULL: there is none, or it has disconnected */
	bool of_reader;	       /* its work counts against the readers' share (share.h) */
	struct piece piece;    /* for handling the engine's answer in that share */
	struct json_object *id, *args;
	const struct method *method;
	struct gpu *gpu;
	/* Handles the engine's answer; NULL: the client gets the answer. */
	void (*then)(struct call *call);
	struct call *next_out; /* the next one in the GPU's outbox */
	/* For a change (change.h): its preparation, how often that was done, and how long it may
	 * wait. */
	change_make *make;
	struct call *next_change;
	uint32_t tries;
	vgpu_nsec until;
	bool again; /* for live.c: the change was refused, and now waits behind the others */
	uint32_t vf;
	char *refusal; /* a refusal's reason, if it is long; the call frees it */
	/* State of the feature that began the call: a reservation, a reload, ... FREE_JOB frees it
	 * with the call; NULL: it has another owner. */
	void *job;
	void (*free_job)(void *job);
	bool apart; /* other changes need not wait for it: its VFs are its own */
	struct engine_request request;
	struct engine_snapshot snapshot;
	/* new values, which the engine reads while the call is in progress */
	const struct vgpu_policy_ops *policy; /* the policy that the client named, or NULL */
	bool would_be; /* for policy.explain: the snapshot has promises of a trial */
	int64_t params[VGPU_MAX_PARAMS];
	int64_t vf_params[VGPU_GPU_MAX_VFS][VGPU_MAX_PARAMS];
};

/* One row for each method: its callers, its arguments, and its help. */
struct method {
	const char *name;
	enum access access;
	const char *help;
	struct arg args[7]; /* ends at a NULL name */
	/* Begins the call: answers it, or sends a request to an engine. Returns 0, or -errno with
	 * the reason in ERR; the caller then answers and frees the call. */
	int (*begin)(struct control *control, struct call *call, struct vgpu_error *err);
	/* Makes the result from the engine's answer; the caller frees it. NULL stands for {}. */
	struct json_object *(*finish)(struct call *call);
};

/* Answers a call with RESULT, which it frees (NULL: {}), and frees the call. */
void call_answer(struct call *call, struct json_object *result);
/* Returns a new call that no client waits for; NULL: out of memory. */
struct call *call_new(struct control *control, struct gpu *gpu);
void call_fail(struct call *call, int r, const char *text);
/* Frees a call without an answer. */
void call_drop(struct call *call);
/* The call's request was answered or refused: calls call->then, or answers the client. */
void call_over(struct call *call);
/* Counts a request that the engine has returned, and sends others. */
void call_returned(struct call *call);
/* As call_over, but in the readers' share for readers. */
void call_answered(struct call *call);
/* Answers a client with an error for a request that has not become a call. ID may be NULL. */
void call_refuse(struct client *client, struct json_object *id, int r, const char *text);
/* Sends the call's request to the engine of its GPU, now or as soon as the engine has room. */
void call_queue(struct call *call);
/* Returns 0 if there is room for a client's request to its GPU; -EAGAIN if too many read requests,
 * or too many changes, are in progress. */
int call_admit(const struct call *call, struct vgpu_error *err);
/* Sends a client's request, if there is room for it: see call_admit. */
int call_send(struct call *call, struct vgpu_error *err);
/* Sends as many of a GPU's waiting requests as its engine has room for. */
void call_send_waiting(struct gpu *gpu);
