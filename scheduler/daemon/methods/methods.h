/* SPDX-License-Identifier: MIT */
/* The table of all methods of the control socket. Control thread. */
#pragma once

#include "control/call.h"

/* Ends at a NULL name. */
extern const struct method methods[];

/* Checks ARGS against a method's table. Returns 0, or -EINVAL with the reason in ERR. */
int method_check(const struct method *method, struct json_object *args, struct vgpu_error *err);
const struct method *method_find(const char *name);
