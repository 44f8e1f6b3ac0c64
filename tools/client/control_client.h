/* SPDX-License-Identifier: MIT */
/*
 * Client of the control protocol (docs/protocol.md), for vgpuctl, vgpud-libvirt and vgpud-hook:
 * sends one request and waits for its answer. A connection belongs to one thread at a time.
 */
#pragma once

#include <json-c/json.h>

#include "vgpu/types.h"

/* Connects to vgpud's control socket at PATH; may block, for less than 5 s. Returns a descriptor,
 * which the caller closes, or -errno with the reason in ERR, as far as vgpud has left one. */
int client_connect(const char *path, struct vgpu_error *err);

/*
 * Calls METHOD with ARGS (the call frees them; NULL: none) and waits for the answer. Returns 0 and
 * the result, which the caller frees with json_object_put; -ECONNRESET if vgpud closed the
 * connection; -EHOSTDOWN if it has given no sign of life for almost 5 s (30 s while it starts), and
 * then the connection is of no more use; or vgpud's own negative errno, with its message in ERR. A
 * vgpud that works on a request may take its time.
 */
int client_call(int fd, const char *method, struct json_object *args, struct json_object **result,
		struct vgpu_error *err);

/*
 * As client_call(), over a connection through a program that may print lines of its own before it
 * passes on what vgpud answers, such as another host's shell: what comes before a JSON object is
 * skipped. Copies its first line to SKIPPED of SIZE bytes, "" if there was none; the reason in ERR
 * quotes it if no answer comes.
 */
int client_call_beyond(int fd, const char *method, struct json_object *args,
		       struct json_object **result, char *skipped, size_t size,
		       struct vgpu_error *err);

/* As client_call(), for a server that is not vgpud and limits its own time: waits until it answers
 * or closes the connection. */
int client_call_patient(int fd, const char *method, struct json_object *args,
			struct json_object **result, struct vgpu_error *err);

/* The two halves of a call, for a program that waits for the socket itself. */

/* Returns the line that calls METHOD with ARGS (the call frees them; NULL: none), newline included;
 * the caller frees it. NULL: out of memory. */
char *client_request(const char *method, struct json_object *args);
/*
 * Reads the line that answers a request. Returns 0 and the result, which the caller frees with
 * json_object_put; 1: vgpud refuses, with its negative errno in *REFUSAL and its message in ERR;
 * -EPROTO: the line is no answer.
 */
int client_answer(const char *line, struct json_object **result, int *refusal,
		  struct vgpu_error *err);
