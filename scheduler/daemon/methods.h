/* SPDX-License-Identifier: MIT */
/*
 * What the files of methods share: methods.c has the table and what is about GPUs, VFs and VMs;
 * policy_methods.c, history.c and memory.c have the others. Control thread.
 */
#ifndef DAEMON_METHODS_H
#define DAEMON_METHODS_H

#include "control.h"
#include "put.h"

typedef struct json_object json;

/* A text argument, or NULL; it is the call's. */
const char *call_text(const struct call *call, const char *name);
/* Takes {"name": value, ...} of a call into the values of a table; nothing of it, and -EINVAL with
 * the reason, if anything is wrong. */
int call_params(const struct call *call, const struct vgpu_param *table, int64_t *values,
		struct vgpu_error *err);
/* Values by a table, as an object; the caller's. */
json *params_json(const struct vgpu_param *table, const int64_t *values);

/* Rows of the table, as struct method has them. */
int begin_policy_list(struct control *control, struct call *call, struct vgpu_error *err);
json *finish_policy_show(struct call *call);
int begin_policy_set(struct control *control, struct call *call, struct vgpu_error *err);
json *finish_policy_set(struct call *call);
json *finish_timeline(struct call *call);
json *finish_events(struct call *call);
json *finish_record(struct call *call);

#endif
