/* SPDX-License-Identifier: MIT */
/* What a program or a container asks for, from the arguments of tenant.start. Control thread. */
#ifndef DAEMON_ASKED_H
#define DAEMON_ASKED_H

#include "control/call.h"
#include "claim.h"

/* Fills in CLAIM for the process PID of OWNER: what the arguments say, and, for a container, its
 * annotations. Returns 0, or -EINVAL with the reason in ERR. */
int asked_read(const struct call *call, uint32_t pid, uid_t owner, struct claim *claim,
	       struct vgpu_error *err);
/* Adds a parameter of the policy, in parts per million or "min", "max" in percent, as its owner may
 * give it. ROOT: any. Returns 0, or -EINVAL with the reason in ERR. */
int asked_param(struct claim_vf *claimed, const char *name, const char *value, bool root,
		struct vgpu_error *err);
/* Returns the lease that the container's annotations name; NULL: none. It is the call's. */
const char *asked_lease(const struct call *call);
/* What is kept of the names that NAMES, an object, has of a container: image, pod and namespace,
 * each as asked_name() writes it. The caller owns it; NULL: there are none. */
struct json_object *asked_engine_names(struct json_object *names);
/* Whether the call says WHAT of its container. */
bool asked_true(const struct call *call, const char *what);
/* The names that the call has of its container, an object of the call's; NULL: none. */
struct json_object *asked_names(const struct call *call);
/* Copies a text that somebody has given, for logs and terminals: "_" stands for what could mean
 * something there. */
void asked_name(char *to, size_t size, const char *from);

#endif
