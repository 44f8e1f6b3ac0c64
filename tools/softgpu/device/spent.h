/* SPDX-License-Identifier: MIT */
/*
 * The host's CPU time that each VF's processes and workers have used, and the fences that its
 * packets have reached.
 *
 * A VF's process serves its client within a limit that it keeps itself, and else computes only
 * while the VF has the engine. One that takes clearly more has been taken over: it is killed, its
 * VF is reset, and has no other process for some time. That leaves its neighbours the CPUs that
 * their engines compute on. The same holds for a worker once it has started, with two differences:
 * in its turn it may use two CPUs, one to launch and one to compute; and it may compile for its
 * guest at any time, on one CPU, in a thread that has stepped back (confine.h).
 *
 * With the GPU's lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

struct softgpu;

/* How often processes are looked at. */
#define SPENT_LOOK (250 * VGPU_MSEC)
/* How long a VF has no process after one that used too much. */
#define SPENT_REST (10 * VGPU_SEC)

enum { SPENT_PROCESS = 0, SPENT_WORKER, SPENT_KINDS };

/* Threads of a worker that have stepped back, as seen last: a worker has one, and the driver's
 * compiler may make others in it. */
#define SPENT_NICE 8u
struct spent_thread {
	pid_t tid;
	vgpu_nsec cpu;
};

/* What a VF's processes of one kind have used. */
struct spent_of {
	vgpu_nsec cpu;	    /* all of them, since softgpu's start */
	vgpu_nsec last_cpu; /* CPU time of the present process so far */
	uint64_t last_fences;
	/* What could have been used beyond what has been, and as of which CPU time, engine time and
	 * instant. */
	int64_t left;
	vgpu_nsec left_cpu, left_had, left_at;
	struct spent_thread nice[SPENT_NICE];
};

struct spent {
	uint64_t fences;	  /* since softgpu's start */
	vgpu_nsec had, has_since; /* the engine; since when it has it, VGPU_NEVER: it has not */
	struct spent_of of[SPENT_KINDS];
};

/* Returns the CPU time of process PID so far, also of one that has ended and was not waited for; 0:
 * there is none. Any thread. */
vgpu_nsec spent_cpu(pid_t pid);

/* Begins to count, with nothing; before any VF has a process. */
void spent_begin(struct softgpu *gpu);
/* Notes that VF has the engine from now on; -1: none has. */
void spent_turn(struct softgpu *gpu, int vf);
/* spent_count counts what a VF's process and worker have used and done until now. spent_ends does
 * so before one of them ends; nothing of it is counted afterwards. */
void spent_count(struct softgpu *gpu, int vf);
void spent_ends(struct softgpu *gpu, int vf, int kind);
/* Counts, and returns which of the VF's process and worker has taken too much since the last call,
 * by name; NULL if neither has. */
const char *spent_too_much(struct softgpu *gpu, int vf);
/* Returns, when a process has ended after spent_too_much(), how long, ns, the VF has to wait until
 * its next process, which may be another client's, has the full allowance. */
vgpu_nsec spent_owed(const struct softgpu *gpu, int vf);
/* Reads a register of the PF: see SOFTGPU_SPENT. */
uint32_t spent_read(struct softgpu *gpu, uint32_t offset);
