/* SPDX-License-Identifier: MIT */
#include "waits.h"

/* Adds the time since the last step to the state that the VF was in. */
static void pass(struct waits *w, struct waiting *v, vgpu_nsec now, vgpu_nsec taken)
{
	vgpu_nsec start = w->last > w->from ? w->last : w->from, wait;

	if (now <= start)
		return;
	if (!v->works)
		v->asleep += now - start;
	if (!v->waits)
		return;
	wait = now - v->since;
	wait -= taken - v->taken < wait ? taken - v->taken : wait;
	if (wait > v->longest)
		v->longest = wait;
}

void waits_step(struct waits *w, const struct vgpu_core *core, uint32_t n, vgpu_nsec now)
{
	struct vgpu_vf_view views[VGPU_GPU_MAX_VFS];
	vgpu_nsec taken = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		vgpu_core_vf_view(core, i, &views[i]);
		taken += views[i].ledger.exclusive_ns + views[i].ledger.reset_ns;
	}
	for (i = 0; i < n; i++) {
		struct waiting *v = &w->vfs[i];
		bool works = views[i].state == VGPU_VF_ACTIVE && views[i].has_work;
		bool waits = works && !views[i].on_engine;

		if (w->last)
			pass(w, v, now, taken);
		v->naps += w->last && now >= w->from && v->works && !works;
		if (waits && !(w->last && v->waits)) {
			v->since = now;
			v->taken = taken;
		}
		v->works = works;
		v->waits = waits;
	}
	w->last = now;
}
