/* SPDX-License-Identifier: MIT */
/*
 * The VFs' use of the host's CPUs: VFs can keep their shares of the engine, and still slow down
 * neighbours by CPU time. The GPU counts it; this file compares it with the VF's allowance.
 */
#include "engine_private.h"
#include "vgpu/clock.h"

/* A VF's processes may use CPU time equal to its time on the engine, plus this part of one CPU. */
#define BESIDE_PERCENT 35
/* Largest saved allowance: less than the CPU time after which softgpu ends a process. */
#define SAVED ((int64_t)(150 * VGPU_MSEC))

void engine_look_at_spent(struct engine *e)
{
	struct engine_spent *s = &e->spent;
	vgpu_nsec now = vgpu_now(), span = now - s->read_at, had[VGPU_GPU_MAX_VFS] = {0}, took;
	struct vgpu_spent before = s->now;
	bool above, first = s->read_at == 0, known;
	uint32_t i;

	if (!e->ops->device->spent || !e->ops->device->spent(e->driver, &s->now))
		return;
	s->read_at = now;
	known = e->time->on_engine && e->time->on_engine(e, had, now);
	for (i = 0; i < e->config.core.max_vfs && known; i++) {
		/* Counters of a GPU that was reset start again. */
		s->had[i] = s->had[i] > had[i] ? had[i] : s->had[i];
		took = s->now.cpu[i] - before.cpu[i];
		s->left[i] +=
			(int64_t)(had[i] - s->had[i] + span * BESIDE_PERCENT / 100) - (int64_t)took;
		s->left[i] = first || s->left[i] > SAVED ? SAVED : s->left[i];
		s->had[i] = had[i];
		above = s->left[i] < 0 || (s->above >> i & 1 && s->left[i] < SAVED);
		s->left[i] = s->left[i] < 0 ? 0 : s->left[i];
		if (above == (s->above >> i & 1))
			continue;
		s->above ^= 1u << i;
		trail_add(&e->records, &(struct vgpu_record){.t = now,
							     .type = VGPU_REC_CPU,
							     .code = above,
							     .vf = i,
							     .a = took,
							     .b = span});
		e->told = true;
	}
}
