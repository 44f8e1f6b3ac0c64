/* SPDX-License-Identifier: MIT */
/*
 * Computing for a container that has a VF of a gated GPU: virglrenderer's server, outside of the
 * container, whose render processes have vgpud's layer and are behind the wall. The container has
 * neither a device nor the layer, only the server's socket, to which Mesa's driver for Venus
 * connects.
 *
 * The server's parent is a worker, which ends the server when the container ends. vgpud gives the
 * worker the VF's gate, and knows the render processes as descendants of the worker.
 *
 * The server has the container's place on the host (place.h), and is fenced off from all processes
 * but those that it starts.
 */
#pragma once

#include <sys/types.h>

#include "vgpu/types.h"

#define RENDER_SOCKET "vtest.sock"

struct render {
	int worker;   /* process number of the worker */
	int orders;   /* socket to the worker */
	bool listens; /* the worker has a server */
	char dir[64]; /* directory with the server's socket, which is mounted into the container */
	char warning[400]; /* why not all of the container's limits count for the server; "": they
			      do */
};

/* Starts a worker, which waits for its order, and ends when the process PID of the pidfd CONTAINER
 * ends. Removes what killed workers have left. Returns 0, or -errno with the reason; render_leave()
 * must follow in both cases. */
int render_begin(struct render *out, int container, pid_t pid, struct vgpu_error *err);
/* Makes the worker start the server for the GPU at DOOR, and waits until the server listens.
 * Returns 0, or -errno with the reason. */
int render_serve(struct render *r, const char *door, struct vgpu_error *err);
/* If the worker has a server and IS_USED, leaves the worker running; else ends it. Closes the
 * socket to it, which may be -1. */
void render_leave(struct render *r, bool is_used);
/* Ends the worker with this process number that was started at STARTED (vgpu/process.h), its
 * server, and all that these have started. Does nothing if the process is another one. */
void render_end(int worker, uint64_t started);
