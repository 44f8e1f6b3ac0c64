/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "govern.h"
#include "random.h"

/* The most epochs of a scenario. */
#define MOST_EPOCHS 400u

/* The longest time that vgpud waits until a plan is in force. */
#define LONGEST_PROGRAM (500 * VGPU_MSEC)

static struct vhost_range up_to(struct rng *r, vgpu_nsec least, vgpu_nsec most)
{
	vgpu_nsec a = random_magnitude(r, least, most), b = random_magnitude(r, least, most);

	return (struct vhost_range){a < b ? a : b, a < b ? b : a};
}

static void draw_tenant(struct rng *r, struct scenario_vf *vf)
{
	vf->work = VHOST_ALWAYS;
	if (random_one_in(r, 3)) {
		vf->work = random_one_in(r, 8) ? VHOST_NEVER : VHOST_BURSTS;
		vf->burst = up_to(r, 10 * VGPU_USEC, 3 * VGPU_SEC);
		vf->think = up_to(r, 10 * VGPU_USEC, 3 * VGPU_SEC);
	}
	if (random_one_in(r, 3))
		vf->late = up_to(r, VGPU_USEC, 40 * VGPU_MSEC);
	if (random_one_in(r, 6)) {
		vf->rare = up_to(r, VGPU_MSEC, 100 * VGPU_MSEC);
		vf->rare_ppm = 20000;
	}
	if (random_one_in(r, 6))
		vf->late_span.min = vf->late_span.max =
			random_magnitude(r, 10 * VGPU_MSEC, 5 * VGPU_SEC);
	random_set_number(&vf->params, "weight", (int64_t)random_magnitude(r, 20, 500));
	random_set_number(&vf->params, "slots", (int64_t)random_between(r, 1, 8));
}

static void draw_operators(struct rng *r, struct scenario *s)
{
	uint64_t n = random_between(r, 1, 6), i;
	struct scenario_op *op;

	for (i = 0; i < n; i++) {
		op = scenario_add_op(s);
		op->t = s->until / (n + 1) * (i + 1) + random_between(r, 0, VGPU_MSEC);
		op->type = OP_SET;
		op->vf = (uint32_t)random_between(r, 0, s->n_vfs - 1);
		random_set_number(&op->params,
				  strcmp(s->policy, "strict") == 0 ? "slots" : "weight",
				  (int64_t)random_between(r, 1, 16));
	}
}

/* Draws VFs that always work, and epochs so short that a VF waits for longer than one or two. */
static void draw_short_epochs(struct rng *r, struct scenario *s)
{
	uint32_t i;

	s->governed.epoch = random_between(r, 50, 70) * VGPU_MSEC;
	s->governed.rotation = random_between(r, 150, 200) * VGPU_MSEC;
	s->until = MOST_EPOCHS * s->governed.epoch;
	for (i = 0; i < s->n_vfs; i++)
		s->vfs[i].work = VHOST_ALWAYS;
}

void govern_random(struct scenario *s, const char *name, uint64_t seed, uint64_t n)
{
	struct rng r = {seed * 1000003 + n};
	struct scenario_governed *g;
	uint32_t i;

	scenario_init(s, (uint32_t)random_between(&r, 1, random_one_in(&r, 8) ? 24 : 8));
	g = &s->governed;
	g->on = true;
	s->seed = random_draw(&r);
	snprintf(s->policy, sizeof(s->policy), "%s", name);
	if (strcmp(name, "strict") == 0)
		settings_set(&s->params, "idle", "compress");
	g->step = random_one_in(&r, 3) ? 100 * VGPU_USEC : VGPU_MSEC;
	g->epoch = random_one_in(&r, 3) ? random_between(&r, 50, 1000) * VGPU_MSEC : g->epoch;
	g->stop = random_magnitude(&r, VGPU_MSEC, 50 * VGPU_MSEC);
	g->rotation = random_between(&r, 50, 200) * VGPU_MSEC;
	g->switch_ns = random_one_in(&r, 2) ? 0 : random_between(&r, 0, 500) * VGPU_USEC;
	s->run = up_to(&r, random_one_in(&r, 2) ? VGPU_USEC : LONGEST_PROGRAM / 4, LONGEST_PROGRAM);
	s->timer_late = up_to(&r, VGPU_USEC, 20 * VGPU_MSEC);
	s->command_fails_ppm = random_one_in(&r, 4) ? 100000 : 0;
	s->until = random_between(&r, 10, MOST_EPOCHS) * g->epoch;
	for (i = 0; i < s->n_vfs; i++)
		draw_tenant(&r, &s->vfs[i]);
	if (random_one_in(&r, 4))
		draw_short_epochs(&r, s);
	else if (random_one_in(&r, 2))
		draw_operators(&r, s);
}
