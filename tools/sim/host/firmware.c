/* SPDX-License-Identifier: MIT */

#include "firmware.h"

static vgpu_nsec draw(struct firmware *f, struct vhost_range range)
{
	return range.max ? random_between(&f->rng, range.min, range.max) : 0;
}

/* Sets when the VF has work again, and how much. Called at the start, and when its work has ended.
 */
static void next_work(struct firmware *f, struct firmware_vf *vf)
{
	const struct scenario_vf *t = vf->tenant;

	vf->work = 0;
	vf->wakes = VGPU_NEVER;
	if (t->work == VHOST_ALWAYS) {
		vf->work = VGPU_NEVER;
	} else if (t->work == VHOST_BURSTS) {
		vf->wakes = f->now + draw(f, t->think) + 1;
	} else if (t->work == VHOST_PERIODIC) {
		while (vf->next_tick <= f->now)
			vf->next_tick += draw(f, t->period) + 1;
		vf->wakes = vf->next_tick;
	}
}

static void wake(struct firmware *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		struct firmware_vf *vf = &f->vfs[i];

		if (vf->wakes > f->now)
			continue;
		vf->wakes = VGPU_NEVER;
		vf->work = draw(f, vf->tenant->burst) + 1;
		vf->waits_since = f->now;
	}
}

/* Returns whether the VF stops late now; a VF may do so only in every other span of time. */
static bool stops_late_now(const struct firmware *f, const struct scenario_vf *t)
{
	return t->late_span.max == 0 || f->now / t->late_span.max % 2 == 0;
}

static vgpu_nsec lateness(struct firmware *f, struct firmware_vf *vf)
{
	const struct scenario_vf *t = vf->tenant;
	vgpu_nsec late = draw(f, t->late);

	if (t->rare_ppm && random_draw(&f->rng) % 1000000 < t->rare_ppm)
		late = draw(f, t->rare);
	if (!stops_late_now(f, t))
		return 0;
	if (f->timeout.max && late > vf->timeout) {
		vf->resets++;
		late = vf->timeout;
	}
	return late;
}

/* Begins the turn of a VF. Its length is fixed now, so quanta that are programmed meanwhile act at
 * its next turn. */
static void begin_turn(struct firmware *f, uint32_t index)
{
	struct firmware_vf *vf = &f->vfs[index];
	vgpu_nsec length = vf->quantum;

	f->begins = f->now + (index == f->current ? 0 : f->switch_ns);
	f->current = index;
	vf->turns++;
	if (vf->work > 0) {
		if (f->begins - vf->waits_since > vf->waited)
			vf->waited = f->begins - vf->waits_since;
		if (vf->work > length)
			length += lateness(f, vf);
		if (vf->work < length && !f->keep_turns)
			length = vf->work;
	}
	f->ends = f->begins + length;
}

/* Returns the VF whose turn is next, or VGPU_NO_VF. */
static uint32_t next_turn(const struct firmware *f)
{
	uint32_t k, i, first = f->current == VGPU_NO_VF ? f->n - 1 : f->current;
	bool any = false;

	for (i = 0; i < f->n; i++)
		any |= f->vfs[i].work > 0;
	for (k = 1; k <= f->n && any; k++) {
		i = (first + k) % f->n;
		if (f->keep_turns || f->vfs[i].work > 0)
			return i;
	}
	return VGPU_NO_VF;
}

/* Accounts for the time until TO: to the VF on the engine, or as idle. */
static void pass(struct firmware *f, vgpu_nsec to)
{
	struct firmware_vf *vf = f->current == VGPU_NO_VF ? NULL : &f->vfs[f->current];
	vgpu_nsec from = f->now > f->begins ? f->now : f->begins, ran = 0;

	if (vf && vf->work > 0 && to > from) {
		ran = to - from;
		ran = ran > vf->work ? vf->work : ran;
		vf->active += ran;
		if (vf->work != VGPU_NEVER)
			vf->work -= ran;
	}
	f->idle += to - f->now - ran;
	f->now = to;
	if (vf && ran > 0 && vf->work == 0)
		next_work(f, vf);
}

static vgpu_nsec next_wake(const struct firmware *f)
{
	vgpu_nsec at = VGPU_NEVER;
	uint32_t i;

	for (i = 0; i < f->n; i++)
		at = f->vfs[i].wakes < at ? f->vfs[i].wakes : at;
	return at;
}

/* Advances to the next instant at which anything happens, at most to UNTIL. */
static void go_on(struct firmware *f, vgpu_nsec until)
{
	vgpu_nsec to = next_wake(f);
	uint32_t next;

	if (f->current != VGPU_NO_VF && f->ends < to)
		to = f->ends;
	to = to > until ? until : to;
	pass(f, to < f->now ? f->now : to);
	wake(f);
	if (f->current != VGPU_NO_VF && f->now < f->ends)
		return;
	if (f->current != VGPU_NO_VF)
		f->vfs[f->current].waits_since = f->now;
	next = next_turn(f);
	if (next == VGPU_NO_VF)
		f->current = VGPU_NO_VF;
	else
		begin_turn(f, next);
}

void firmware_advance(struct firmware *f, vgpu_nsec until)
{
	uint32_t i;

	while (f->now < until) {
		if (f->now < f->freeze_at && until >= f->freeze_at) {
			for (i = 0; i < f->n; i++)
				f->frozen[i] = f->vfs[i].active;
		}
		go_on(f, until);
	}
}

static vgpu_nsec clamped(const struct vgpu_setting *s, vgpu_nsec value)
{
	value -= value % s->step;
	return value < s->min ? s->min : value > s->max ? s->max : value;
}

void firmware_program(struct firmware *f, const struct vgpu_program *p,
		      struct vgpu_program *applied)
{
	uint32_t i;

	f->keep_turns = p->keep_turns;
	*applied = (struct vgpu_program){.keep_turns = p->keep_turns};
	for (i = 0; i < f->n; i++) {
		f->vfs[i].quantum = clamped(&f->quantum, p->vfs[i].quantum);
		f->vfs[i].timeout = f->timeout.max ? clamped(&f->timeout, p->vfs[i].timeout) : 0;
		applied->vfs[i].quantum = f->vfs[i].quantum;
		applied->vfs[i].timeout = f->vfs[i].timeout;
	}
}

void firmware_usage(const struct firmware *f, vgpu_nsec *active)
{
	uint32_t i;

	for (i = 0; i < f->n; i++)
		active[i] = f->now < f->freeze_at ? f->vfs[i].active : f->frozen[i];
}

void firmware_init(struct firmware *f, const struct scenario *s)
{
	uint32_t i;

	*f = (struct firmware){.n = s->n_vfs,
			       .quantum = {s->governed.step, 100 * VGPU_SEC, s->governed.step},
			       .timeout = {VGPU_USEC, 100 * VGPU_SEC, VGPU_USEC},
			       .switch_ns = s->governed.switch_ns,
			       .freeze_at = s->governed.freeze ? s->governed.freeze : VGPU_NEVER,
			       .rng = {s->seed},
			       .current = VGPU_NO_VF};
	for (i = 0; i < f->n; i++) {
		f->vfs[i] = (struct firmware_vf){.tenant = &s->vfs[i],
						 .quantum = f->quantum.min,
						 .timeout = f->timeout.min};
		next_work(f, &f->vfs[i]);
	}
}
