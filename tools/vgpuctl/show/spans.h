/* SPDX-License-Identifier: MIT */
/* Spans of time in which a VF did something, from the records of vgpud's method timeline. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_VFS 64

/* SERVED: an epoch of a GPU whose firmware schedules, in which the VF had turns. */
enum kind { RUN, OVERRUN, WINDOW, RESET, SERVED, KINDS };

/* The names of the kinds. */
extern const char *const kind_names[KINDS];

struct span {
	int64_t from, to; /* CLOCK_MONOTONIC, nanoseconds */
	int vf;
	enum kind kind;
	double part; /* fraction of the span on the engine; 1 for all kinds but SERVED */
};

struct spans {
	struct span *list;
	size_t n;
};

/* Returns the spans of an answer; the caller frees the list. */
struct spans spans_collect(struct json_object *answer);
/* Returns when a plan came into force, CLOCK_MONOTONIC, ns, if RECORD says that and is of its GPU's
 * first VF; else 0. */
int64_t spans_plan(struct json_object *record);
/* Returns whether the answer is about a GPU whose firmware schedules. */
bool spans_governed(struct json_object *answer);
/* Returns the number of VFs in an answer. */
int spans_vfs(struct json_object *answer);
/* Returns the name of the VF's VM, owned by the answer; "" if it has none. */
const char *spans_vm(struct json_object *answer, int vf);
/* Writes "VF N" and the name of its VM to OUT. */
void spans_label(struct json_object *answer, int vf, char *out, size_t size);
/* Returns the distance between marks on an axis, ns: 1, 2 or 5 times a power of ten, so that SPAN
 * has at most MOST marks. */
int64_t spans_step(int64_t span, unsigned most);
