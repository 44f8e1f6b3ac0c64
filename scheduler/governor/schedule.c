/* SPDX-License-Identifier: MIT */
/*
 * From what VFs are due to a program. Each write is a line in the kernel's log, and may wait behind
 * a VF's reset, so a program is written only if it is needed: if some VF would get a share that is
 * wrong by more than the tolerance. The right share is the policy's ideal, and what the VF is owed
 * beyond the slack, paid within `settle`. With 1 %, 0.5 s and 3.5 ms a VF may so be behind or
 * ahead by 8.5 ms.
 */
#include <string.h>

#include "private.h"

static uint64_t to_steps(const struct vgpu_governor *g, vgpu_nsec ns)
{
	return ns / g->config.quantum.step;
}

/* What is the same in each target. */
static void begin_target(const struct vgpu_governor *g, struct target *t)
{
	vgpu_nsec step = g->config.quantum.step;
	uint64_t parts[VGPU_GPU_MAX_VFS];
	struct vgpu_bound bound;
	uint32_t i;

	*t = (struct target){.n = g->config.max_vfs,
			     .rotation = to_steps(g, g->config.rotation),
			     .wanted = to_steps(g, g->config.max_vfs * g->config.turn)};
	promise_parts(g, parts);
	for (i = 0; i < t->n; i++) {
		bound = (struct vgpu_bound){.budget = 0};
		if (g->policy && g->vfs[i].admitted)
			g->policy->bound(g->memory, i, &bound);
		t->vfs[i].part = parts[i];
		t->vfs[i].least = to_steps(g, g->config.quantum.min);
		t->vfs[i].now = to_steps(g, g->vfs[i].quantum);
		t->vfs[i].others = promise_others(g, i) * ONE_STEP / step;
		if (bound.budget)
			t->vfs[i].floor =
				(uint64_t)((unsigned __int128)bound.budget * WHOLE / bound.period);
	}
}

static void issue(struct vgpu_governor *g, const struct quanta *q)
{
	struct vgpu_program *plan = &g->out->plan;
	vgpu_nsec stop = g->config.timeout.max ? g->config.stop : 0;
	uint32_t i, changed = 0;

	*plan = (struct vgpu_program){.keep_turns = g->keep_turns};
	for (i = 0; i < g->config.max_vfs; i++) {
		plan->vfs[i].quantum = q->steps[i] * g->config.quantum.step;
		plan->vfs[i].timeout = stop;
		changed += plan->vfs[i].quantum != g->vfs[i].quantum;
		changed += plan->vfs[i].timeout != g->vfs[i].timeout;
	}
	if (changed == 0 && !g->rewrite)
		return;
	g->rewrite = false;
	g->programming = true;
	g->asked = *plan;
	g->out->program = true;
	g->plans++;
	g->writes += changed;
}

void schedule_nominal(struct vgpu_governor *g)
{
	struct target t;
	struct quanta q;
	uint32_t i;

	begin_target(g, &t);
	for (i = 0; i < t.n; i++)
		t.vfs[i].share = t.vfs[i].part;
	search_quanta(&t, 0, &q);
	issue(g, &q);
}

/* What VF is owed, as far as that is worth a correction. */
static int64_t to_correct(const struct vgpu_governor *g, const struct governed *vf)
{
	int64_t slack = (int64_t)g->config.slack;

	if (vf->owed > slack)
		return vf->owed - slack;
	return vf->owed < -slack ? vf->owed + slack : 0;
}

/* What VF should get in `settle`. */
static uint64_t due(const struct vgpu_governor *g, const struct governed *vf)
{
	int64_t fluid = vf->fluid > 0 ? vf->fluid : 1;
	int64_t due = (int64_t)((__int128)fluid * (int64_t)g->config.settle /
				(int64_t)(g->busy + !g->busy)) +
		      to_correct(g, vf);

	return due > 0 ? (uint64_t)due : 1;
}

/* Adds who competes, and for what. Returns how many do. */
static uint32_t compete(const struct vgpu_governor *g, struct target *t)
{
	uint64_t dues[VGPU_GPU_MAX_VFS], sum = 0, parts = 0;
	uint32_t n = 0, i;

	for (i = 0; i < t->n; i++) {
		if (g->vfs[i].state != VGPU_GOVERNED_BUSY)
			continue;
		n++;
		dues[i] = due(g, &g->vfs[i]);
		sum += dues[i];
		parts += t->vfs[i].part;
	}
	for (i = 0; i < t->n; i++) {
		if (g->vfs[i].state != VGPU_GOVERNED_BUSY)
			continue;
		t->vfs[i].share = (uint64_t)((unsigned __int128)dues[i] * WHOLE / sum);
		t->vfs[i].share += t->vfs[i].share == 0;
		t->vfs[i].part = (uint64_t)((unsigned __int128)dues[i] * parts / sum);
		t->vfs[i].late = g->vfs[i].late * ONE_STEP / g->config.quantum.step;
	}
	return n;
}

void schedule_due(struct vgpu_governor *g)
{
	uint64_t tolerance = g->config.tolerance_ppm * WHOLE / 1000000;
	struct quanta q;
	struct target t;
	uint32_t i;

	begin_target(g, &t);
	if (compete(g, &t) == 0)
		return;
	for (i = 0; i < t.n; i++)
		q.steps[i] = t.vfs[i].now;
	if (!g->rewrite && search_error(&t, &q) <= tolerance)
		return;
	search_quanta(&t, tolerance / 8, &q);
	issue(g, &q);
}
