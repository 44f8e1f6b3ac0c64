/* SPDX-License-Identifier: MIT */
/*
 * Computing for a container that has a VF of a gated GPU: virglrenderer's server, outside of the
 * container, whose render processes have vgpud's layer and are behind the wall. The container has
 * no device and no layer, but a socket of the server, to which Mesa's driver for Venus connects.
 *
 * The server's parent is a worker, which ends it with the container. vgpud gives the worker the
 * VF's gate, and knows the render processes as its descendants.
 *
 * The server has the container's place on the host (place.h), and is fenced off from all processes
 * but those that it starts.
 */
#pragma once

#include <sys/types.h>

#include "vgpu/types.h"

#define RENDER_SOCKET "vtest.sock"

struct render {
	int worker;   /* process */
	int orders;   /* a socket to it */
	char dir[64]; /* what is mounted into the container, with the socket */
};

/* Begins a worker, which waits for its order, and ends with the process PID of the pidfd CONTAINER.
 * Removes what killed workers have left. Returns 0, or -errno with the reason; render_leave() must
 * follow in both cases. */
int render_begin(struct render *out, int container, pid_t pid, struct vgpu_error *err);
/* Makes the worker start the server for the GPU at DOOR, and waits until the server listens.
 * Returns 0, or -errno with the reason. */
int render_serve(struct render *r, const char *door, struct vgpu_error *err);
/* Leaves the worker to itself if it SERVES, else ends it. */
void render_leave(struct render *r, bool serves);
