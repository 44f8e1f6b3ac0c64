/* SPDX-License-Identifier: MIT */
/* Client of the control protocol: sends one request and waits for its answer. */
#ifndef VGPUCTL_CLIENT_H
#define VGPUCTL_CLIENT_H

#include <json-c/json.h>

#include "vgpu/types.h"

/* Connects to vgpud's control socket at PATH. Returns a descriptor, which the caller closes, or
 * -errno with the reason in ERR. */
int client_connect(const char *path, struct vgpu_error *err);

/*
 * Calls METHOD with ARGS (the call frees them; NULL: none) and waits for the answer. Returns 0 and
 * the result, which the caller frees with json_object_put; -ECONNRESET if vgpud closed the
 * connection; or vgpud's own negative errno, with its message in ERR.
 */
int client_call(int fd, const char *method, struct json_object *args, struct json_object **result,
		struct vgpu_error *err);

#endif
