/* SPDX-License-Identifier: MIT */
/*
 * Copies device memory of a VF, which only the VF's worker can access, to the PF's host memory and
 * back, by that worker. The filler does this: it keeps the worker's descriptors, and waits for its
 * answers without the device's lock. A worker that does not answer in time, or dies, loses its VF
 * and no other. If this host lacks resources, no VF is lost: its memory stays where it is, and the
 * PF or the filler tries again.
 */
#pragma once

#include "gpu.h"
#include "protocol.h"

struct carry {
	int vf, memory;		/* the socket, of which this has a duplicate; -1: none */
	void *stage;		/* or MAP_FAILED */
	uint32_t number;	/* number of the worker */
	vgpu_nsec left, waited; /* how long answers may take, and the answer has taken */
	uint32_t what;		/* the last request: enum worker_memory_what; 0: none was sent */
	int result;		/* its */
	int host;		/* -errno: this process could not do its own part; 0: it could */
};

/* Finds the worker of a VF that has memory. ANEW: a swap begins. Called with the lock held. Without
 * a worker every request fails. */
void carry_begin(struct carry *c, struct softgpu *gpu, int vf, bool anew);
/* Copies N bytes, at most WORKER_STAGE, of device memory, from AT behind the window on, to BUFFER
 * (OUT) or from it. Returns whether that was done. Called without the lock. */
bool carry_copy(struct carry *c, uint64_t at, void *buffer, uint64_t n, bool out);
/* Lets the worker clear its device memory and give it back. Called without the lock. */
bool carry_leave(struct carry *c);
/* Reports a refusal, and ends a worker that has failed. Returns whether the request succeeded and
 * the worker still is the VF's. Called with the lock held. */
bool carry_end(struct carry *c, struct softgpu *gpu);
/* Tells the operator that a VF's memory stays where it is for now, because this process failed with
 * -errno ERROR; only if it is the host that has too little, and once until the memory has moved.
 * Called with the lock held. */
void carry_tell(struct softgpu *gpu, int vf, int error);
