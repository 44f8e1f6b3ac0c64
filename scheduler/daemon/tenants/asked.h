/* SPDX-License-Identifier: MIT */
/* The requests of programs and containers, from the arguments of tenant.start. Control thread. */
#pragma once

#include "control/call.h"
#include "claim.h"

/* Fills in CLAIM for the process PID of OWNER, from the arguments and, for a container, its
 * annotations. Returns 0, or -EINVAL with the reason in ERR. */
int asked_read(const struct call *call, uint32_t pid, uid_t owner, struct claim *claim,
	       struct vgpu_error *err);
/* Adds a parameter of the policy, in parts per million or "min", "max" in percent, that an owner
 * may set; ROOT: any parameter. Returns 0, or -EINVAL with the reason in ERR. */
int asked_param(struct claim_vf *claimed, const char *name, const char *value, bool root,
		struct vgpu_error *err);
/* Returns the lease that the container's annotations name; NULL: none. It is the call's. */
const char *asked_lease(const struct call *call);
/* Returns a new object with image, pod and namespace of NAMES, each as by asked_name(); NULL: NAMES
 * has none of them. */
struct json_object *asked_engine_names(struct json_object *names);
/* Returns whether the call has the member WHAT about its container. */
bool asked_true(const struct call *call, const char *what);
/* Returns the call's names of its container, an object owned by the call; NULL: none. */
struct json_object *asked_names(const struct call *call);
/* Copies a text from a client for logs and terminals, with "_" for characters that could have a
 * meaning there. */
void asked_name(char *to, size_t size, const char *from);
