/* SPDX-License-Identifier: MIT */
/* Prints vgpud's answers for people. */
#ifndef VGPUCTL_VIEW_H
#define VGPUCTL_VIEW_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

/* Whether to print colours: stdout is a terminal and NO_COLOR is not set. */
extern bool view_colour;

void view_gpu_list(struct json_object *o);
void view_gpu_show(struct json_object *o);
void view_vm_list(struct json_object *o);
void view_config_diff(struct json_object *o);
void view_config_reload(struct json_object *o);
void view_vm_explain(struct json_object *o);
void view_vf_list(struct json_object *o);
void view_vf_show(struct json_object *o);
void view_policy_list(struct json_object *o);
void view_policy_explain(struct json_object *o);
void view_policy_show(struct json_object *o);
void view_stats(struct json_object *o);
void view_events(struct json_object *o);
void view_params(struct json_object *o);
/* Prints one view of `top`: what changed between the answers BEFORE (NULL: the start of vgpud) and
 * NOW. */
void view_top(struct json_object *now, struct json_object *before);

/* timeline.c: which VF ran when */
void view_timeline(struct json_object *o, unsigned width);
void timeline_svg(struct json_object *o, FILE *to);
/* Writes the Chrome trace format, which Perfetto reads. */
void timeline_trace(struct json_object *o, FILE *to);

/* memory_view.c: which VF has which part of a GPU's memory */
void view_memory(struct json_object *o, unsigned width);
/* Prints what a resize would move and clear, or has moved and cleared. */
void view_memory_plan(struct json_object *o);
void memory_svg(struct json_object *o, FILE *to);

/* Members of an object: 0, "-" and NULL if it has none of that name. Texts and objects stay the
 * object's. */
int64_t get_int(struct json_object *o, const char *key);
const char *get_text(struct json_object *o, const char *key);
struct json_object *get(struct json_object *o, const char *key);

#endif
