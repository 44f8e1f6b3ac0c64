/* SPDX-License-Identifier: MIT */
/*
 * What the files with methods share: methods.c has the table and the methods about GPUs, VFs and
 * VMs; policy_methods.c, history.c and memory.c have the others. Control thread.
 */
#ifndef DAEMON_METHODS_H
#define DAEMON_METHODS_H

#include "control.h"
#include "put.h"

typedef struct json_object json;

/* Returns the text of the argument NAME, which is the call's, or NULL. */
const char *call_text(const struct call *call, const char *name);
/* Sets VALUES from the call's "params", {"name": value, ...}, checked against TABLE. Returns 0; on
 * a mistake it changes nothing and returns -EINVAL with the reason in ERR. */
int call_params(const struct call *call, const struct vgpu_param *table, int64_t *values,
		struct vgpu_error *err);
/* Returns VALUES by their names in TABLE, as an object that the caller frees. */
json *params_json(const struct vgpu_param *table, const int64_t *values);

/* The functions of rows of the table; see struct method. */
int begin_policy_list(struct control *control, struct call *call, struct vgpu_error *err);
json *finish_policy_show(struct call *call);
int begin_policy_set(struct control *control, struct call *call, struct vgpu_error *err);
json *finish_policy_set(struct call *call);
json *finish_timeline(struct call *call);
json *finish_events(struct call *call);
json *finish_record(struct call *call);

#endif
