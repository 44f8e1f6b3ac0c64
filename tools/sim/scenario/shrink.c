/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shrink.h"

static void drop_vf(struct scenario *s, uint32_t vf)
{
	uint32_t i;
	size_t k, n = 0;

	free(s->vfs[vf].items);
	for (i = vf; i + 1 < s->n_vfs; i++)
		s->vfs[i] = s->vfs[i + 1];
	s->n_vfs--;
	for (k = 0; k < s->n_ops; k++) {
		if (s->ops[k].vf == vf && s->ops[k].type != OP_POLICY)
			continue;
		if (s->ops[k].vf > vf)
			s->ops[k].vf--;
		s->ops[n++] = s->ops[k];
	}
	s->n_ops = n;
}

/* Reductions of a whole scenario. */

static void half_the_time(struct scenario *s)
{
	s->until = s->work_from + (s->until - s->work_from) / 2;
}

static void half_the_ops(struct scenario *s)
{
	s->n_ops /= 2;
}

static void later_ops(struct scenario *s)
{
	size_t half = (s->n_ops + 1) / 2;

	if (s->n_ops)
		memmove(s->ops, s->ops + half, (s->n_ops - half) * sizeof(*s->ops));
	s->n_ops -= half;
}

static void default_policy(struct scenario *s)
{
	s->params.n = 0;
}

static void no_failures(struct scenario *s)
{
	s->command_fails_ppm = s->reset_fails_ppm = 0;
	s->gpu_reset = s->windows_stick = false;
}

static void free_switches(struct scenario *s)
{
	s->load = s->run = (struct vhost_range){0, 0};
}

static void timers_in_time(struct scenario *s)
{
	s->timer_late = (struct vhost_range){0, 0};
}

static void short_windows(struct scenario *s)
{
	s->init = s->window = s->scrub = s->reset = (struct vhost_range){0, 0};
}

static void (*const of_all[])(struct scenario *s) = {
	half_the_time, half_the_ops,  later_ops,      default_policy,
	no_failures,   free_switches, timers_in_time, short_windows,
};

/* Reductions of a VF. */

static void default_vf(struct scenario_vf *vf)
{
	vf->params.n = 0;
}

static void innocent(struct scenario_vf *vf)
{
	vf->hang_ppm = vf->reset_ppm = vf->window_ppm = 0;
	vf->window = (struct vhost_range){0, 0};
}

static void never_rare(struct scenario_vf *vf)
{
	vf->rare_ppm = 0;
	vf->rare = (struct vhost_range){0, 0};
}

static void in_time(struct scenario_vf *vf)
{
	vf->late = (struct vhost_range){0, 0};
}

static void small(struct scenario_vf *vf)
{
	vf->save = (struct vhost_range){0, 0};
}

static void works_never(struct scenario_vf *vf)
{
	vf->work = VHOST_NEVER;
	vf->burst = vf->think = vf->period = (struct vhost_range){0, 0};
}

static void works_always(struct scenario_vf *vf)
{
	works_never(vf);
	vf->work = VHOST_ALWAYS;
}

static void works_evenly(struct scenario_vf *vf)
{
	vf->burst.min = vf->burst.max;
	vf->think.min = vf->think.max;
	vf->period.min = vf->period.max;
}

static void (*const of_vf[])(struct scenario_vf *vf) = {
	default_vf, innocent, never_rare, in_time, small, works_never, works_always, works_evenly,
};

#define N_OF_ALL (sizeof(of_all) / sizeof(of_all[0]))
#define N_OF_VF (sizeof(of_vf) / sizeof(of_vf[0]))

static void drop_op(struct scenario *s, size_t k)
{
	s->n_ops--;
	memmove(s->ops + k, s->ops + k + 1, (s->n_ops - k) * sizeof(*s->ops));
}

/* Applies reduction number STEP. Returns false if there is no such step. */
static bool reduce(struct scenario *s, size_t step)
{
	size_t vf, what;

	if (step < N_OF_ALL) {
		of_all[step](s);
		return true;
	}
	step -= N_OF_ALL;
	vf = step / (N_OF_VF + 1);
	what = step % (N_OF_VF + 1);
	if (vf < s->n_vfs) {
		if (what < N_OF_VF)
			of_vf[what](&s->vfs[vf]);
		else if (s->n_vfs > 1)
			drop_vf(s, (uint32_t)vf);
		return true;
	}
	step -= s->n_vfs * (N_OF_VF + 1);
	if (step < s->n_ops) {
		drop_op(s, step);
		return true;
	}
	step -= s->n_ops;
	if (step < s->n_ops) {
		s->ops[step].params.n = 0;
		return true;
	}
	return false;
}

static bool same(const struct scenario *a, const struct scenario *b)
{
	char *ta = NULL, *tb = NULL;
	size_t na = 0, nb = 0;
	FILE *fa = open_memstream(&ta, &na), *fb = open_memstream(&tb, &nb);
	bool equal;

	scenario_write(a, fa);
	scenario_write(b, fb);
	fclose(fa);
	fclose(fb);
	equal = na == nb && memcmp(ta, tb, na) == 0;
	free(ta);
	free(tb);
	return equal;
}

/* The most runs that shrinking may take; each takes at most as long as the failing one. */
#define SHRINK_RUNS 800

/* Reduces greedily, until no single step helps (after Zeller's ddmin). */
void shrink(struct scenario *s, bool (*fails)(const struct scenario *s, const void *context),
	    const void *context)
{
	struct scenario smaller;
	bool progress = true;
	uint32_t runs = 0;
	size_t step;

	while (progress && runs < SHRINK_RUNS) {
		progress = false;
		for (step = 0;; step++) {
			scenario_copy(&smaller, s);
			if (!reduce(&smaller, step)) {
				scenario_free(&smaller);
				break;
			}
			if (!same(&smaller, s) && runs++ < SHRINK_RUNS &&
			    fails(&smaller, context)) {
				scenario_free(s);
				*s = smaller;
				progress = true;
			} else {
				scenario_free(&smaller);
			}
		}
	}
}
