/* SPDX-License-Identifier: MIT */
/* The control protocol's client: one request, one answer. */
#ifndef VGPUCTL_CLIENT_H
#define VGPUCTL_CLIENT_H

#include <json-c/json.h>

#include "vgpu/types.h"

/* Connects to vgpud; a descriptor, or -errno with the reason. */
int client_connect(const char *path, struct vgpu_error *err);

/*
 * Calls METHOD with ARGS (taken over; NULL: none). 0 and the result, which is the caller's;
 * -ECONNRESET if vgpud went away; else a negative errno of vgpud's, with its reason.
 */
int client_call(int fd, const char *method, struct json_object *args, struct json_object **result,
		struct vgpu_error *err);

#endif
