/* SPDX-License-Identifier: MIT */
/* How answers look to people. */
#ifndef VGPUCTL_VIEW_H
#define VGPUCTL_VIEW_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

/* Whether stdout takes colours. */
extern bool view_colour;

void view_gpu_list(struct json_object *o);
void view_gpu_show(struct json_object *o);
void view_vm_list(struct json_object *o);
void view_vm_explain(struct json_object *o);
void view_vf_list(struct json_object *o);
void view_vf_show(struct json_object *o);
void view_policy_list(struct json_object *o);
void view_policy_explain(struct json_object *o);
void view_policy_show(struct json_object *o);
void view_stats(struct json_object *o);
void view_events(struct json_object *o);
void view_params(struct json_object *o);
/* One frame of `top`: NOW against BEFORE (NULL: since the start). */
void view_top(struct json_object *now, struct json_object *before);

/* timeline.c: who ran when */
void view_timeline(struct json_object *o, unsigned width);
void timeline_svg(struct json_object *o, FILE *to);
/* The Chrome trace format, which Perfetto reads. */
void timeline_trace(struct json_object *o, FILE *to);

/* memory.c: who has which part of a GPU's memory */
void view_memory(struct json_object *o, unsigned width);
/* What a change takes, or took. */
void view_memory_plan(struct json_object *o);
void memory_svg(struct json_object *o, FILE *to);

/* A number of an object; 0 if it is not there. */
int64_t get_int(struct json_object *o, const char *key);
const char *get_text(struct json_object *o, const char *key);
struct json_object *get(struct json_object *o, const char *key);

#endif
