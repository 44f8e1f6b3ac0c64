/* SPDX-License-Identifier: MIT */
/*
 * The control protocol's client (docs/protocol.md): what vgpuctl, vgpud-libvirt and vgpud-hook need
 * to ask vgpud. A connection is one thread's at a time.
 */
#ifndef CONTROL_CLIENT_H
#define CONTROL_CLIENT_H

#include <json-c/json.h>

#include "vgpu/types.h"

/* Connects to vgpud; a descriptor, or -errno with the reason. May block. */
int client_connect(const char *path, struct vgpu_error *err);

/*
 * Calls METHOD with ARGS (taken over; NULL: none), and waits for the answer. 0 and the result,
 * which is the caller's; -ECONNRESET if vgpud went away; else a negative errno of vgpud's, with its
 * reason.
 */
int client_call(int fd, const char *method, struct json_object *args, struct json_object **result,
		struct vgpu_error *err);

/* The two halves of a call, for a program that does its own waiting. */

/* The line that calls METHOD with ARGS (taken over; NULL: none), with its newline; the caller's.
 * NULL: out of memory. */
char *client_request(const char *method, struct json_object *args);
/*
 * Reads the line that answers it. 0 and the result, which is the caller's; 1: vgpud refuses, with
 * its negative errno in *REFUSAL and its reason in ERR; -EPROTO: it is no answer.
 */
int client_answer(const char *line, struct json_object **result, int *refusal,
		  struct vgpu_error *err);

#endif
