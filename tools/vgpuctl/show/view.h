/* SPDX-License-Identifier: MIT */
/* Prints vgpud's answers for people, to stdout or to a given FILE. The answers stay the caller's.
 * One thread. */
#pragma once

#include <json-c/json.h>
#include <stdio.h>

#include "session.h"

/* view_gpu.c */
void view_gpu_list(struct json_object *o);
void view_gpu_show(struct json_object *o);
void view_stats(struct json_object *o);

/* view_vf.c */
void view_vf_list(struct json_object *o);
void view_vf_show(struct json_object *o);
void view_params(struct json_object *o);

/* view_policy.c */
void view_policy_list(struct json_object *o);
void view_policy_explain(struct json_object *o);
void view_policy_show(struct json_object *o);
void view_policy_set(struct json_object *o);

/* view_config.c */
void view_config_diff(struct json_object *o);
void view_config_reload(struct json_object *o);

/* vm.c */
void view_vm_list(struct json_object *o);
void view_vm_explain(struct json_object *o);

/* timeline.c, timeline_page.c: which VF ran when */
void view_timeline(struct json_object *o);
void timeline_svg(struct json_object *o, FILE *to);
/* Writes a page that needs no other file, and in which the user can zoom. */
void timeline_html(struct json_object *o, FILE *to);
/* Prints the timeline of all GPUs in the Chrome trace format, which Perfetto reads; ARGS: arguments
 * of the method timeline. Returns an exit code. */
int timeline_trace(struct session *s, struct json_object *args);

/* memory_view.c: which VF has which part of a GPU's memory */
void view_memory(struct json_object *o);
/* Prints what a resize would move and clear, or has moved and cleared. */
void view_memory_plan(struct json_object *o);
void memory_svg(struct json_object *o, FILE *to);
