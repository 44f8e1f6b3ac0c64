/* SPDX-License-Identifier: MIT */
/* Reading the arguments of a call, and writing parameters. Control thread. */
#pragma once

#include "call.h"
#include "put.h"

typedef struct json_object json;

/* Sets call->gpu and *VF from the call's arguments. Return 0, or -errno with the reason in ERR. */
int call_find_gpu(struct control *control, struct call *call, struct vgpu_error *err);
int call_find_vf(struct call *call, uint32_t *vf, struct vgpu_error *err);
/* The begin of methods that answer from a view of the GPU: requests call->snapshot from the
 * engine. */
int call_look_begin(struct control *control, struct call *call, struct vgpu_error *err);
/* Returns the argument NAME, or OTHERWISE if it was not given. */
int64_t call_int(const struct call *call, const char *name, int64_t otherwise);
/* Returns the text of the argument NAME, owned by the call, or NULL. */
const char *call_text(const struct call *call, const char *name);
/* Returns the libvirt on whose behalf the client calls (struct claim); "": unknown. */
const char *call_host(const struct call *call);
/* Renames parameters of TABLE that the call has in percent, as "min", to "min_ppm", and converts
 * their values. Unreadable ones stay. */
void call_in_ppm(struct call *call, const struct vgpu_param *table);
/* Sets VALUES from the call's "params", {"name": value, ...}, checked against TABLE. Returns 0; on
 * a mistake it changes nothing and returns -EINVAL with the reason in ERR. */
int call_params(const struct call *call, const struct vgpu_param *table, int64_t *values,
		struct vgpu_error *err);
/* Returns VALUES by their names in TABLE, as an object that the caller frees. */
json *params_json(const struct vgpu_param *table, const int64_t *values);
/* Adds the scheduler of the GPU: "vgpud", "firmware" or "driver". */
void put_scheduler(json *o, const struct engine_snapshot *s);
/* Adds a bound, nanoseconds; null if it is VGPU_NEVER. */
void put_bound(json *o, const char *key, vgpu_nsec value);
