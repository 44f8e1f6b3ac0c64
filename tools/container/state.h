/* SPDX-License-Identifier: MIT */
/* What an OCI runtime tells hooks about a container (runtime-spec, "State"). It is untrusted: users
 * can start the hook with any input. */
#pragma once

#include <json-c/json.h>

#include "vgpu/types.h"

/* The largest accepted state, bytes. */
#define STATE_MAX (1u << 20)
#define STATE_ID_SIZE 129
#define STATE_PATH_SIZE 4096

struct state {
	char id[STATE_ID_SIZE];
	int pid;		    /* the container's first process; 0: the runtime names none */
	char root[STATE_PATH_SIZE]; /* path of the container's file system; "": read it from the
				     * bundle's config.json */
	char bundle[STATE_PATH_SIZE];
	struct json_object *annotations; /* vgpud's annotations, all texts; owned by the state */
	/* What the container's engine calls it in annotations of its own: name, image, pod and
	 * namespace, as far as given; owned by the state. */
	struct json_object *names;
};

/* Reads a state from TEXT of SIZE bytes. Returns 0, and state_drop() must follow; or -EINVAL with
 * the reason. */
int state_read(struct state *out, const char *text, size_t size, struct vgpu_error *err);
/* Fills in `root`, if the state does not have it, from TEXT of SIZE bytes, the bundle's
 * config.json. Returns 0, or -EINVAL with the reason. */
int state_read_config(struct state *state, const char *text, size_t size, struct vgpu_error *err);
void state_drop(struct state *state);
