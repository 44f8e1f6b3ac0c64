/* SPDX-License-Identifier: MIT */
/*
 * The methods memory.*, and what gives VFs back the memory that they have without a VM. Control
 * thread.
 */
#ifndef DAEMON_MEMORY_H
#define DAEMON_MEMORY_H

#include "control.h"

/* From the call's snapshot. */
struct json_object *memory_json(struct call *call);

int memory_plan_begin(struct control *control, struct call *call, struct vgpu_error *err);
int memory_set_begin(struct control *control, struct call *call, struct vgpu_error *err);
int memory_compact_begin(struct control *control, struct call *call, struct vgpu_error *err);
struct json_object *memory_plan_json(struct call *call);

/* What it costs that a VF of SIZE bytes is swapped, in words; false: it is not. */
bool memory_cost(const struct engine_snapshot *s, uint32_t vf, uint64_t size, char *text,
		 size_t length);

/* A VF that is free, and belongs to no VM, gets its usual memory, now or as soon as that is
 * possible. */
void memory_is_free(struct gpu *gpu, uint32_t vf);
/* Every second: what was not possible is tried again. */
void memory_retry(struct gpu *gpu);

#endif
