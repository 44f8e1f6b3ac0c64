/* SPDX-License-Identifier: MIT */
/*
 * What each VF has spent of the host's CPUs, and what it has done: the CPU time of its processes
 * and its workers, and the fences that its packets have reached.
 *
 * A VF's process serves its client within a limit that it keeps itself, and else computes only
 * while the VF has the engine. One that takes clearly more has been taken over: it is killed, its
 * VF is reset, and has no other process for some time. That leaves its neighbours the CPUs that
 * their engines compute on. A worker may compile for its guest at any time: its time is counted,
 * not limited.
 *
 * With the GPU's lock.
 */
#ifndef SOFTGPU_SPENT_H
#define SOFTGPU_SPENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vgpu/types.h"

struct softgpu;

/* How often processes are looked at. */
#define SPENT_LOOK (250 * VGPU_MSEC)
/* How long a VF has no process after one that took too much. */
#define SPENT_REST (10 * VGPU_SEC)

enum { SPENT_PROCESS = 0, SPENT_WORKER, SPENT_KINDS };

struct spent {
	vgpu_nsec cpu;	 /* since softgpu's start */
	uint64_t fences; /* the same */
	struct {
		vgpu_nsec cpu; /* of those that live, so far */
		uint64_t fences;
	} last[SPENT_KINDS];
	vgpu_nsec had, has_since; /* the engine; since when it has it, VGPU_NEVER: it has not */
	vgpu_nsec process_cpu;	  /* the part of CPU that processes have used */
	/* What the process could have used beyond what it has, and as of which CPU time, engine
	 * time and instant. */
	int64_t left;
	vgpu_nsec left_cpu, left_had, left_at;
};

/* Begins to count, with nothing; before any VF has a process. */
void spent_begin(struct softgpu *gpu);
/* A VF has the engine from now on; -1: none. */
void spent_turn(struct softgpu *gpu, int vf);
/* Counts what a VF's process and worker have used and done until now. Before one of them ends:
 * spent_ends(), of which nothing is counted afterwards. */
void spent_count(struct softgpu *gpu, int vf);
void spent_ends(struct softgpu *gpu, int vf, int kind);
/* Counts, and looks whether the VF's process has taken too much since the last look. */
bool spent_too_much(struct softgpu *gpu, int vf);
/* After such a look, when a process has ended: how long the VF has to wait until its next process,
 * which may be another client's, finds all that can be saved up. */
vgpu_nsec spent_owed(const struct softgpu *gpu, int vf);
/* Register of the PF: see SOFTGPU_SPENT. */
uint32_t spent_read(struct softgpu *gpu, uint32_t offset);

#endif
