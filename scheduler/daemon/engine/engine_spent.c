/* SPDX-License-Identifier: MIT */
/*
 * What VFs take of the host's CPUs, beside the engine: their shares of that may be kept, and
 * neighbours get less done all the same. The GPU counts it; here it is compared with what a VF may
 * take.
 */
#include "engine_private.h"
#include "vgpu/clock.h"

/* A VF's processes may take the time that it has the engine, and this part of one CPU. */
#define BESIDE_PERCENT 35
/* What can be saved up of that: less than what softgpu lets a process take before it ends it. */
#define SAVED ((int64_t)(150 * VGPU_MSEC))

/* The ledger is as of the last step, which is long ago where one VF has the engine alone. */
static vgpu_nsec on_engine(const struct engine *e, uint32_t i, vgpu_nsec now)
{
	struct vgpu_core_view core;
	struct vgpu_vf_view vf;
	vgpu_nsec since = 0;

	vgpu_core_view(e->core, &core);
	if (core.current == i && core.phase == VGPU_PHASE_RUN && now > e->stepped_at)
		since = now - e->stepped_at;
	vgpu_core_vf_brief(e->core, i, &vf);
	return vf.ledger.run_ns + vf.ledger.donated_ns + vf.ledger.exclusive_ns + since;
}

void engine_look_at_spent(struct engine *e)
{
	struct engine_spent *s = &e->spent;
	vgpu_nsec now = vgpu_now(), span = now - s->read_at, had, took;
	struct vgpu_spent before = s->now;
	bool above, first = s->read_at == 0;
	uint32_t i;

	if (!e->ops->device->spent || !e->ops->device->spent(e->driver, &s->now))
		return;
	s->read_at = now;
	for (i = 0; i < e->config.core.max_vfs && e->core; i++) {
		had = on_engine(e, i, now);
		took = s->now.cpu[i] - before.cpu[i];
		s->left[i] +=
			(int64_t)(had - s->had[i] + span * BESIDE_PERCENT / 100) - (int64_t)took;
		s->left[i] = first || s->left[i] > SAVED ? SAVED : s->left[i];
		s->had[i] = had;
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
