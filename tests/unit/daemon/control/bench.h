/* SPDX-License-Identifier: MIT */
/*
 * The control thread, over its real sockets, with an engine on the quick GPU. The test plays the
 * clients, and turns the control thread's event loop between their actions. One thread.
 */
#pragma once

#include <json-c/json.h>

#include "control.h"
#include "quick_gpu.h"
#include "test.h"
#include "vgpu/clock.h"

/* A deadline far beyond the time that any step here takes. */
#define PATIENCE (20 * VGPU_SEC)
#define LONGEST (1u << 20)

/* What vgpud has, in the directory BENCH_DIR. */
extern struct control control;
extern struct config config;
extern char bench_dir[];

/* A client's connection, and the bytes of its next answer that have arrived. */
struct peer {
	int fd;
	size_t n;
	char text[LONGEST];
};

/* Two connections that are there from the beginning. */
extern struct peer one, other;

/* Turns the event loop once. */
void turn(void);
/* Connects to a socket of vgpud's. */
void join(struct peer *p, const char *path);
/* Sends TEXT. */
void say(struct peer *p, const char *text);
/* Returns the next answer, which the caller frees; NULL if none arrives before the deadline. */
struct json_object *hear(struct peer *p);
/* Member KEY of an object; NULL: it has none. */
static inline struct json_object *get(struct json_object *o, const char *key)
{
	struct json_object *value;

	return json_object_object_get_ex(o, key, &value) ? value : NULL;
}

/* The text of O.KEY.THEN; "": there is none. */
const char *text_at(struct json_object *o, const char *key, const char *then);
/* Returns whether the next answer is an error with this code and these words. */
bool refused(struct peer *p, const char *code, const char *words);
/* Returns whether the next answer is a result in which KEY is VALUE. */
bool says(struct peer *p, const char *key, const char *value);
/* Repeats a request until KEY is VALUE in its result. Returns false at the deadline. */
bool comes_to_say(struct peer *p, const char *request, const char *key, const char *value);
/* Returns whether the next answer is a result. */
bool done(struct peer *p);

/* Begins with the engine of a GPU, or with the quick GPU under a policy. */
void bench_begin_with(struct gpu_config *gpu, const struct engine_config *engine_config);
void bench_begin(const char *policy);
/* Ends what was begun; every call must have ended by then. */
void bench_end(void);
