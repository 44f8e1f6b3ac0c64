/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "judge_governed.h"

__attribute__((format(printf, 2, 3))) static void broken(struct judge_governed *j,
							 const char *format, ...)
{
	va_list args;

	if (j->result->violation[0])
		return;
	va_start(args, format);
	vsnprintf(j->result->violation, sizeof(j->result->violation), format, args);
	va_end(args);
}

static bool always_works(const struct judge_governed *j, uint32_t vf)
{
	return j->scenario->vfs[vf].work == VHOST_ALWAYS;
}

void judge_governed_change(struct judge_governed *j, uint32_t n, const double *shares)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		j->base[i] = j->read[i];
		/* No change may lose what was owed before: the bound then counts in addition. */
		if (j->result->vfs[i].bound.max_lag != VGPU_NEVER)
			j->brought[i] = (double)j->result->vfs[i].bound.max_lag;
		j->weights[i] = shares ? shares[i] : 0;
	}
}

static void worst_ratio(struct judge_governed *j, uint32_t vf, double off, double allowed)
{
	double ratio = fabs(off) / allowed;

	if (ratio > j->result->lag)
		j->result->lag = ratio;
	if (ratio > 1)
		broken(j, "VF %u is %.3f ms from its share, and at most %.3f ms are promised", vf,
		       off / 1e6, allowed / 1e6);
}

/* Judges VFs that always have work: each against the ideal, if all VFs do; and any two. */
static void judge_lag(struct judge_governed *j, const struct firmware *f)
{
	double all = 0, weights = 0, had[VGPU_GPU_MAX_VFS], allowed[VGPU_GPU_MAX_VFS];
	bool alone = true;
	uint32_t i, k;

	for (i = 0; i < f->n; i++) {
		vgpu_nsec bound = j->result->vfs[i].bound.max_lag;

		if (j->weights[i] <= 0 || bound == VGPU_NEVER)
			return;
		had[i] = (double)f->vfs[i].active - j->base[i];
		allowed[i] = (double)bound + j->brought[i];
		alone = alone && always_works(j, i);
		all += had[i];
		weights += j->weights[i];
	}
	for (i = 0; i < f->n; i++) {
		if (alone)
			worst_ratio(j, i, had[i] - all * j->weights[i] / weights, allowed[i]);
		for (k = 0; k < i; k++)
			if (always_works(j, i) && always_works(j, k))
				worst_ratio(j, i,
					    (had[i] / j->weights[i] - had[k] / j->weights[k]) *
						    j->weights[i],
					    allowed[i] +
						    allowed[k] * j->weights[i] / j->weights[k]);
	}
}

/* Judges that each ns that was read is booked in exactly one place. */
static void judge_ledger(struct judge_governed *j, const struct firmware *f,
			 const struct vgpu_governor_view *view)
{
	vgpu_nsec served = 0;
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		const struct vgpu_governed_ledger *l = &j->result->vfs[i].ledger;

		served += l->served;
		if (l->served + l->brought !=
		    l->charged + (vgpu_nsec)l->carry + (vgpu_nsec)l->lapsed)
			broken(j, "VF %u: its ledger does not close", i);
		if (view->unread == 0 && f->now < f->freeze_at && l->served != f->vfs[i].active)
			broken(j, "VF %u was served %llu ns, and %llu ns are booked", i,
			       (unsigned long long)f->vfs[i].active, (unsigned long long)l->served);
	}
	if (view->wall != served + view->idle + view->unread)
		broken(j, "the governor's time does not add up");
}

/* Judges the firmware's own promise: no VF with work waits longer than the stated bound. */
static void judge_wait(struct judge_governed *j, const struct firmware *f)
{
	uint32_t i;

	for (i = 0; i < f->n; i++) {
		vgpu_nsec bound = j->result->vfs[i].bound.max_wait;
		double ratio;

		if (bound > j->longest_wait[i])
			j->longest_wait[i] = bound;
		ratio = (double)f->vfs[i].waited / (double)j->longest_wait[i];
		if (ratio > j->result->wait)
			j->result->wait = ratio;
		if (ratio > 1)
			broken(j, "VF %u waited for %.3f ms, and at most %.3f ms are promised", i,
			       (double)f->vfs[i].waited / 1e6, (double)j->longest_wait[i] / 1e6);
	}
}

void judge_governed_epoch(struct judge_governed *j, const struct firmware *f,
			  const struct vgpu_governor *g)
{
	struct vgpu_governor_view view;
	uint32_t i;

	vgpu_governor_view(g, &view);
	for (i = 0; i < f->n; i++)
		vgpu_governor_vf_view(g, i, &j->result->vfs[i]);
	judge_ledger(j, f, &view);
	judge_wait(j, f);
	if (view.mode == VGPU_GOVERNOR_GOVERNED && view.unread == 0 && f->now < f->freeze_at)
		judge_lag(j, f);
	for (i = 0; i < f->n; i++)
		j->read[i] = (double)f->vfs[i].active;
}

void judge_governed_program(struct judge_governed *j, const struct vgpu_program *program,
			    vgpu_nsec since_last)
{
	const struct scenario_governed *s = &j->scenario->governed;
	vgpu_nsec sum = 0;
	uint32_t i;

	for (i = 0; i < j->scenario->n_vfs; i++) {
		vgpu_nsec q = program->vfs[i].quantum;

		sum += q;
		if (q < s->step || q % s->step)
			broken(j, "VF %u: a quantum of %llu ns, which the GPU cannot have", i,
			       (unsigned long long)q);
	}
	if (sum > s->rotation)
		broken(j, "the quanta add up to %.3f ms", (double)sum / 1e6);
	if (since_last < j->epoch)
		broken(j, "a program %.3f ms after the last one", (double)since_last / 1e6);
}
