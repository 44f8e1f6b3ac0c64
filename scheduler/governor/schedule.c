/* SPDX-License-Identifier: MIT */
/*
 * Turns the VFs' dues into a program. Each write is a line in the kernel's log, and may wait behind
 * a VF's reset, so a program is written only if it is needed: if some VF would get a share that is
 * wrong by more than the tolerance. With 1 %, 0.5 s and 3.5 ms a VF may thus be behind or ahead by
 * 8.5 ms. If one step of one quantum is enough, only that is changed.
 */

#include "private.h"

static uint64_t to_steps(const struct vgpu_governor *g, vgpu_nsec ns)
{
	return ns / g->config.quantum.step;
}

/* Returns whether the policy may state budgets, which it promises since version 1.1 of the
 * contract. */
static bool may_have_floors(const struct vgpu_policy_ops *policy)
{
	return policy && (policy->promises & VGPU_PROMISE_GUARANTEE || policy->abi_minor == 0);
}

/* The common part of all targets. */
static void begin_target(const struct vgpu_governor *g, struct target *t)
{
	vgpu_nsec step = g->config.quantum.step;
	uint64_t parts[VGPU_GPU_MAX_VFS];
	vgpu_nsec all = promise_others(g, VGPU_NO_VF);
	bool floors = may_have_floors(g->policy);
	struct vgpu_bound bound;
	uint32_t i;

	*t = (struct target){.n = g->config.max_vfs,
			     .rotation = to_steps(g, g->config.rotation),
			     .wanted = to_steps(g, g->config.max_vfs * g->config.turn)};
	t->most = t->rotation;
	promise_parts(g, parts);
	for (i = 0; i < t->n; i++) {
		bound = (struct vgpu_bound){.budget = 0};
		if (floors && g->vfs[i].admitted)
			g->policy->bound(g->memory, i, &bound);
		t->vfs[i].part = parts[i];
		t->vfs[i].least = to_steps(g, g->config.quantum.min);
		t->vfs[i].now = to_steps(g, g->vfs[i].quantum);
		t->vfs[i].longest = g->in_part ? to_steps(g, g->vfs[i].longest) : t->vfs[i].now;
		t->vfs[i].others = (all - promise_stop(g, i)) * ONE_STEP / step;
		if (bound.budget)
			t->vfs[i].floor =
				(uint64_t)((unsigned __int128)bound.budget * WHOLE / bound.period);
	}
}

static void issue(struct vgpu_governor *g, const struct quanta *q)
{
	struct vgpu_program *plan = &g->out->plan;
	vgpu_nsec stop = g->config.timeout.max ? g->config.stop : 0;
	bool keeps = g->keep_turns || g->config.always_keeps_turns;
	uint32_t i, changed = keeps != g->kept_turns;

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

/*
 * Looks for quanta that differ from those in force, Q, in a single step, and give each VF a share
 * that is wrong by LIMIT at most. Writes the best to Q. Quanta are whole steps, and often none is
 * exact, so that plans alternate between two: the less they differ, the longer each of them stays
 * in force.
 */
static bool try_a_step(const struct target *t, uint64_t limit, struct quanta *q)
{
	uint64_t least = limit + 1, error, now, best_steps = 0;
	uint32_t i, up, best = 0;

	for (i = 0; i < t->n; i++) {
		now = q->steps[i];
		for (up = 0; up < 2 && t->vfs[i].share; up++) {
			if (now + 2 * up < t->vfs[i].least + 1)
				continue; /* too short */
			q->steps[i] = now + 2 * up - 1;
			error = search_error(t, q, least);
			if (error >= least)
				continue;
			least = error;
			best = i;
			best_steps = q->steps[i];
		}
		q->steps[i] = now;
	}
	if (least <= limit)
		q->steps[best] = best_steps;
	return least <= limit;
}

/*
 * Where readings are off by up to a turn, the slack is a turn. A VF at the edge of the slack would
 * then appear on either side of it by turns, and a correction that ended at the edge would begin
 * anew with every other reading. So a debt is paid down to half of the slack; unless a step of one
 * quantum is enough, which pays slowly, up to the other edge. Returns whether it was; otherwise T
 * holds the rest for the search.
 */
static bool correct_seldom(const struct vgpu_governor *g, uint64_t tolerance, struct target *t,
			   struct quanta *q)
{
	if (try_a_step(t, tolerance, q))
		return true;
	begin_target(g, t);
	dues_compete(g, t, true);
	return false;
}

/*
 * Old and new quanta together must fit into one rotation, and VFs aside may have all the room that
 * the others need to change theirs. Returns whether the room was too small, which Q then takes from
 * the VFs aside.
 */
static bool make_room(const struct target *t, struct quanta *q)
{
	uint64_t all = 0, spare = 0, excess, more[VGPU_GPU_MAX_VFS];
	uint32_t i;

	for (i = 0; i < t->n; i++) {
		more[i] = t->vfs[i].aside && !t->vfs[i].floor ? q->steps[i] : 0;
		more[i] -= min_ns(more[i], t->vfs[i].least);
		all += q->steps[i];
		spare += more[i];
	}
	excess = all > t->most ? all - t->most : 0;
	excess = excess < spare ? excess : spare;
	for (i = 0; i < t->n && excess; i++)
		q->steps[i] -= (excess * more[i] + spare - 1) / spare;
	return excess > 0;
}

void schedule_due(struct vgpu_governor *g)
{
	uint64_t tolerance = g->config.tolerance_ppm * WHOLE / 1000000;
	struct quanta q;
	struct target t;
	uint32_t i;

	begin_target(g, &t);
	if (dues_compete(g, &t, false) == 0) {
		if (g->rewrite) /* a new policy or new parameters: write when a VF has work */
			schedule_nominal(g);
		return;
	}
	for (i = 0; i < t.n; i++)
		q.steps[i] = t.vfs[i].now;
	if (!g->rewrite && make_room(&t, &q)) {
		issue(g, &q);
		return;
	}
	if (!g->rewrite && search_error(&t, &q, WHOLE) <= tolerance)
		return;
	if (g->rewrite || !may_cut_turns(g) || !correct_seldom(g, tolerance, &t, &q))
		search_quanta(&t, tolerance / 8, &q);
	issue(g, &q);
}
