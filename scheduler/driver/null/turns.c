/* SPDX-License-Identifier: MIT */
#include "turns.h"

void turns_init(struct turns *t, uint32_t n, vgpu_nsec now)
{
	*t = (struct turns){.n_vfs = n, .now = now, .current = VGPU_NO_VF};
}

static bool nobody_is_busy(const struct turns *t)
{
	uint32_t i;

	for (i = 0; i < t->n_vfs; i++)
		if (t->vfs[i].busy)
			return false;
	return true;
}

/* Begins the next turn. Without a VF that has work there is none. */
static void begin_turn(struct turns *t)
{
	uint32_t next = t->current == VGPU_NO_VF ? 0 : (t->current + 1) % t->n_vfs;

	t->current = VGPU_NO_VF;
	if (nobody_is_busy(t))
		return;
	while (!t->keep_turns && !t->vfs[next].busy)
		next = (next + 1) % t->n_vfs;
	t->current = next;
	t->quantum_end = t->turn_end = t->now + t->vfs[next].quantum;
	if (t->vfs[next].busy)
		t->turn_end += t->vfs[next].late < t->vfs[next].timeout ? t->vfs[next].late
									: t->vfs[next].timeout;
}

static void go_to(struct turns *t, vgpu_nsec now)
{
	if (t->current != VGPU_NO_VF && t->vfs[t->current].busy)
		t->vfs[t->current].active += now - t->now;
	t->now = now;
}

void turns_advance(struct turns *t, vgpu_nsec now)
{
	uint32_t vf;

	if (t->current == VGPU_NO_VF)
		begin_turn(t);
	while (t->current != VGPU_NO_VF && t->turn_end <= now) {
		vf = t->current;
		go_to(t, t->turn_end);
		t->vfs[vf].resets += t->vfs[vf].busy && t->vfs[vf].late > t->vfs[vf].timeout;
		begin_turn(t);
	}
	go_to(t, now);
}

void turns_program(struct turns *t, const struct vgpu_program *program, vgpu_nsec now)
{
	uint32_t i;

	/* The turn that has begun ends when it would have. */
	turns_advance(t, now);
	t->keep_turns = program->keep_turns;
	for (i = 0; i < t->n_vfs; i++) {
		t->vfs[i].quantum = program->vfs[i].quantum;
		t->vfs[i].timeout = program->vfs[i].timeout;
	}
}

void turns_busy(struct turns *t, uint32_t vf, bool busy, vgpu_nsec now)
{
	turns_advance(t, now);
	t->vfs[vf].busy = busy;
	if (t->current == VGPU_NO_VF || (t->current == vf && !busy && !t->keep_turns))
		begin_turn(t);
}
