/* SPDX-License-Identifier: MIT */
#include "call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "engine/engine.h"

#define MAX_UNDER_WAY 48u /* root's requests to an engine that only read; and root's changes */

static const char *errno_name(int r)
{
	const char *name = strerrorname_np(-r);

	return name ? name : "EIO";
}

static void send_object(struct client *client, struct json_object *object)
{
	size_t length;
	const char *text =
		json_object_to_json_string_length(object, JSON_C_TO_STRING_PLAIN, &length);

	client_send(client, text, length);
}

void call_refuse(struct client *client, struct json_object *id, int r, const char *text)
{
	struct json_object *answer = json_object_new_object();
	struct json_object *error = json_object_new_object();

	json_object_object_add(answer, "id", json_object_get(id));
	json_object_object_add(error, "code", json_object_new_string(errno_name(r)));
	json_object_object_add(error, "message", json_object_new_string(text));
	json_object_object_add(answer, "error", error);
	send_object(client, answer);
	json_object_put(answer);
}

void call_drop(struct call *call)
{
	struct call **link;

	for (link = &call->control->calls; *link != call; link = &(*link)->next)
		;
	*link = call->next;
	share_remove(&call->control->share, &call->piece);
	if (call->client)
		client_call_over(call->client);
	json_object_put(call->id);
	json_object_put(call->args);
	if (call->free_job)
		call->free_job(call->job);
	free(call->refusal);
	free(call);
}

void call_answer(struct call *call, struct json_object *result)
{
	struct json_object *answer;

	if (call->client) {
		answer = json_object_new_object();
		json_object_object_add(answer, "id", json_object_get(call->id));
		json_object_object_add(answer, "result",
				       result ? result : json_object_new_object());
		send_object(call->client, answer);
		json_object_put(answer);
	} else {
		json_object_put(result);
	}
	call_drop(call);
}

struct call *call_new(struct control *control, struct gpu *gpu)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->control = control;
	call->gpu = gpu;
	call->next = control->calls;
	control->calls = call;
	return call;
}

void call_fail(struct call *call, int r, const char *text)
{
	if (call->client)
		call_refuse(call->client, call->id, r, text);
	call_drop(call);
}

void call_send_waiting(struct gpu *gpu)
{
	struct call *call;

	while ((call = gpu->calls.outbox) && engine_send(gpu->engine, &call->request))
		gpu->calls.outbox = call->next_out;
}

void call_queue(struct call *call)
{
	struct call **last = &call->gpu->calls.outbox;

	while (*last)
		last = &(*last)->next_out;
	*last = call;
	call->next_out = NULL;
	call->request.data = call;
	call->gpu->calls.under_way++;
	call->gpu->calls.for_readers += call->of_reader;
	call_send_waiting(call->gpu);
}

/* The number of changes of the call's GPU in progress, without this one, but with those of
 * disconnected clients. Reservations do not count: each has a VF of its own. */
static uint32_t changes_beside(const struct call *call)
{
	const struct call *c;
	uint32_t n = 0;

	for (c = call->control->calls; c; c = c->next)
		n += c != call && c->gpu == call->gpu && c->method && !c->apart &&
		     c->method->access == ACCESS_CHANGE;
	return n;
}

int call_admit(const struct call *call, struct vgpu_error *err)
{
	const struct gpu *gpu = call->gpu;
	uint32_t n;

	if (call->method->access == ACCESS_CHANGE) {
		n = changes_beside(call);
		return n < MAX_UNDER_WAY
			       ? 0
			       : vgpu_error_set(err, -EAGAIN,
						"%u changes of %s are under way, and vgpud refuses "
						"more; try again",
						n, gpu->config->name);
	}
	/* A reader has one request in progress per connection, and does not lock out root. */
	n = gpu->calls.under_way - gpu->calls.for_readers;
	if (!call->of_reader && n >= MAX_UNDER_WAY)
		return vgpu_error_set(err, -EAGAIN,
				      "%u requests to %s are under way, and vgpud refuses more "
				      "that only read; try again",
				      n, gpu->config->name);
	return 0;
}

int call_send(struct call *call, struct vgpu_error *err)
{
	int r = call_admit(call, err);

	if (r == 0)
		call_queue(call);
	return r;
}

static void answered(struct piece *piece)
{
	struct call *call = (struct call *)(void *)((char *)piece - offsetof(struct call, piece));

	if (call->client)
		client_drop_if_gone(call->client);
	call_over(call);
}

void call_returned(struct call *call)
{
	call->gpu->calls.under_way--;
	call->gpu->calls.for_readers -= call->of_reader;
	call_send_waiting(call->gpu);
}

void call_answered(struct call *call)
{
	if (call->of_reader) {
		call->piece.run = answered;
		share_add(&call->control->share, &call->piece);
	} else {
		call_over(call);
	}
}

void call_over(struct call *call)
{
	const struct engine_request *request = &call->request;

	if (call->then)
		call->then(call);
	else if (!call->client)
		call_drop(call);
	else if (request->result >= 0)
		call_answer(call, call->method && call->method->finish ? call->method->finish(call)
								       : NULL);
	else
		call_fail(call, request->result,
			  call->refusal	    ? call->refusal
			  : request->why[0] ? request->why
					    : strerror(-request->result));
}
