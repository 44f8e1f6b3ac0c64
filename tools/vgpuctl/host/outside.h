/* SPDX-License-Identifier: MIT */
/*
 * A container that runs, and a VF of a gated GPU: its programs compute outside of it, in processes
 * that vgpuctl starts (tools/container/render.h). They have the rights of vgpuctl's user, and so
 * has the mount of their socket: vgpud-mount, which is root's, mounts nothing that users made.
 */
#pragma once

#include "render.h"

/* What may compute for a container. */
struct outside {
	int container; /* a pidfd of the container's first process */
	struct render render;
};

/* Begins a worker for the container whose first process is PID. Returns an exit code, with the
 * reason on stderr; outside_leave() must follow in any case. */
int outside_begin(struct outside *out, int pid);
/* Has the worker serve the GPU at DOOR, and mounts its socket into the container. Returns an exit
 * code, with the reason on stderr. */
int outside_serve(struct outside *out, const char *door);
/* Leaves the worker to itself if it serves and IS_USED, else ends it. */
void outside_leave(struct outside *out, bool is_used);
/* Unmounts what WORKER has mounted into the container whose first process is PID: no program in it
 * begins to compute any more. Returns an exit code, with the reason on stderr. */
int outside_unmount(int pid, int worker);
