/* SPDX-License-Identifier: MIT */
/*
 * The methods memory.*, and the return of VFs to their usual memory after a VM. Control thread.
 */
#pragma once

#include "control/call.h"

/* Returns the result of memory.show from the call's snapshot; the caller frees it. */
struct json_object *memory_json(struct call *call);

/* Returns the size of the largest partition that moves could make room for, in bytes; counts memory
 * that is still being cleared. 0: vgpud does not partition the GPU's memory. The snapshot's extents
 * are only read. */
uint64_t memory_after_compaction(const struct gpu *gpu, struct engine_snapshot *s);

/* The methods memory.*, as rows of the table in methods.c name them. */
int memory_plan_begin(struct control *control, struct call *call, struct vgpu_error *err);
int memory_set_begin(struct control *control, struct call *call, struct vgpu_error *err);
int memory_compact_begin(struct control *control, struct call *call, struct vgpu_error *err);
struct json_object *memory_plan_json(struct call *call);

/* Writes to TEXT the cost of swapping for a VF with SIZE bytes. Returns false if the VF is not
 * swapped. */
bool memory_cost(const struct engine_snapshot *s, uint32_t vf, uint64_t size, char *text,
		 size_t length);

/* Gives a free VF that belongs to no VM its usual memory, now or as soon as possible. */
void memory_give_usual(struct gpu *gpu, uint32_t vf);
/* Every second: retries what was not possible before. */
void memory_retry(struct gpu *gpu);
