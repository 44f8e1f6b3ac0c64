/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "admission.h"
#include "peer.h"
#include "random.h"

#define MOST_SERVERS 8u
#define MOST_BACKGROUND 64u

/* A job of a server's whole budget, less what it is charged after its work; 0: the budget is too
 * small for that, or there is no server. */
struct whole {
	vgpu_nsec job, period;
};

/* Periods are long enough for what is covered: a grace is 50 ms, a window 1 s. */
static vgpu_nsec scale(const struct admission_options *o)
{
	return !o->cover ? 1 : strcmp(o->cover, "windows") == 0 ? 100 : 10;
}

static void draw_gpu(struct rng *r, const struct admission_options *o, struct scenario *s)
{
	vgpu_nsec half = o->switch_ns / 2;

	s->seed = random_draw(r) >> 1;
	snprintf(s->policy, sizeof(s->policy), "%s", o->policy->name);
	settings_set(&s->params, "cap_pct", "100");
	random_set_number(&s->params, "late_us", (int64_t)(o->late / VGPU_USEC));
	if (o->mode)
		settings_set(&s->params, "admission", o->mode);
	if (o->cover) {
		settings_set(&s->params, "cover", o->cover);
		settings_set(&s->params, "slice_us", "50000");
	}
	s->load = (struct vhost_range){o->vary ? half / 2 : half, half};
	s->min_slice = o->min_slice;
	s->work_from = 500 * VGPU_MSEC;
	s->until = s->work_from + (o->cover ? 500 : 1500) * VGPU_MSEC * scale(o);
}

/* What a VF uses of its next budget after its work: until the device reports that it has none, and
 * until it has stopped. */
#define AFTER_WORK (150 * VGPU_USEC)

/* Draws what a VF does: it always works, or has jobs of up to its budget, at ticks or with pauses
 * between. Half of them leave room for what is charged after their work. */
static void draw_work(struct rng *r, vgpu_nsec budget, vgpu_nsec period, struct scenario_vf *vf)
{
	vgpu_nsec most = budget - 1, after = AFTER_WORK + vf->late.max;

	if (random_one_in(r, 3))
		return;
	if (random_one_in(r, 2) && most > 2 * after)
		most -= after;
	/* A tenant adds a nanosecond to what it draws. */
	vf->burst = (struct vhost_range){random_one_in(r, 2) ? most - most / 10 : most / 4, most};
	if (random_one_in(r, 2)) {
		vf->work = VHOST_PERIODIC;
		vf->period = (struct vhost_range){period, period};
	} else {
		vf->work = VHOST_BURSTS;
		/* Each job arrives a period after the one before, or later. */
		vf->think = (struct vhost_range){period, period + period / 4};
	}
}

static void draw_server(struct rng *r, const struct admission_options *o, double share,
			struct scenario_vf *vf, struct whole *whole)
{
	static const int64_t periods_ms[] = {8, 16, 33, 50, 100};
	int64_t period = periods_ms[random_draw(r) % 5] * (int64_t)scale(o);
	int64_t budget = (int64_t)(share * (double)period * 1000);

	if (strcmp(o->policy->name, "qos") == 0) {
		random_set_number(&vf->params, "min_ppm", (int64_t)(share * 1e6));
		random_set_number(&vf->params, "period_ms", period);
		budget = (int64_t)(share * 1e6) * period / 1000;
	} else {
		random_set_number(&vf->params, "budget_us", budget);
		random_set_number(&vf->params, "period_us", period * 1000);
	}
	whole->period = (vgpu_nsec)period * VGPU_MSEC;
	if ((vgpu_nsec)budget * VGPU_USEC > 2 * (AFTER_WORK + o->late))
		whole->job = (vgpu_nsec)budget * VGPU_USEC - AFTER_WORK - o->late;
	if (budget > 1)
		draw_work(r, (vgpu_nsec)budget * VGPU_USEC, (vgpu_nsec)period * VGPU_MSEC, vf);
}

/* Draws 2 to 8 servers, as the reference study does. In a third of the sets all VFs stop late
 * together, each time by as much as the policy was told. */
static void draw_set(struct rng *r, const struct admission_options *o, struct scenario *s,
		     struct whole *whole)
{
	uint32_t n = (uint32_t)random_between(r, 2, MOST_SERVERS), i;
	double parts[MOST_SERVERS], all = 0, load = (double)random_between(r, 300, 1000) / 1000;
	bool together = random_one_in(r, 3);
	vgpu_nsec half = o->switch_ns / 2;

	scenario_init(s, n + o->background + (o->cover != NULL));
	draw_gpu(r, o, s);
	for (i = 0; i < n; i++)
		all += parts[i] = (double)random_between(r, 1, 1000);
	for (i = 0; i < s->n_vfs; i++) {
		struct scenario_vf *vf = &s->vfs[i];

		vf->late = (struct vhost_range){together ? o->late : 0, o->late};
		vf->save = (struct vhost_range){o->vary ? half / 2 : o->switch_ns - half,
						o->switch_ns - half};
		if (i < n)
			draw_server(r, o, load * parts[i] / all, vf, &whole[i]);
		else if (i == n + o->background)
			vf->work = VHOST_NEVER;
	}
}

/* At an instant in the middle of the run a VF hangs when it is to stop next, or the last VF, which
 * has no work, takes an exclusive window. The others have their budgets all the same. */
static void happens(struct running *r, const struct scenario *s, bool window)
{
	vgpu_nsec length = s->until - s->work_from;
	struct rng rng = {.state = s->seed};
	vgpu_nsec t = s->work_from +
		      (vgpu_nsec)random_between(&rng, (int64_t)length / 4, (int64_t)length / 2);
	uint32_t vf = s->n_vfs - 1;

	if (!window)
		vf = (uint32_t)random_between(&rng, 0, s->n_vfs - 2);
	monitor_covers(r->host.monitor, vf);
	running_run(r, t);
	if (!window) {
		r->host.vfs[vf].hangs_next = true;
		return;
	}
	r->host.vfs[vf].own_window = r->host.config.window_max - 1;
	r->host.vfs[vf].stays_down = true;
	vhost_event(&r->host, &(struct vgpu_event){.type = VGPU_EV_REQUEST,
						   .vf = vf,
						   .code = VGPU_WINDOW_FINI});
}

/* Runs a set; false if the policy refuses a part of it. COVER as in the options. */
static bool run_set(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    const char *cover, struct monitor_result *result)
{
	struct vgpu_vf_view v;
	struct vgpu_error err;
	struct running r;
	bool admitted = true;
	uint32_t i;

	if (running_start(&r, s, 0, policy, false, VHOST_MEMORY_NONE, peer_or_policy, &err) < 0)
		abort(); /* cannot fail: the parameters are in their ranges */
	for (i = 0; i < r.host.n_vfs; i++) {
		vgpu_core_vf_view(r.host.core, i, &v);
		admitted = admitted && v.state != VGPU_VF_ABSENT;
	}
	r.host.quiet = r.host.goes_on = true; /* this study judges budgets only */
	r.host.monitor = monitor_new(&r.host, true);
	if (admitted && cover)
		happens(&r, s, strcmp(cover, "windows") == 0);
	if (admitted)
		running_run(&r, s->until);
	monitor_finish(r.host.monitor, result);
	monitor_free(r.host.monitor);
	running_finish(&r);
	return admitted;
}

#define HARDER 6u

/* Makes the VFs use the same budgets as hard as possible: they always work, or have jobs of their
 * whole budget in each period, at other instants each time; and all stop as late as allowed. */
static void make_harder(struct scenario *s, const struct whole *w,
			const struct admission_options *o, uint32_t k)
{
	struct rng r = {.state = s->seed + k};
	uint32_t i;

	s->seed += k;
	for (i = 0; i < s->n_vfs; i++) {
		struct scenario_vf *vf = &s->vfs[i];
		bool always = k == 0 || w[i].job == 0 || random_one_in(&r, 2);

		vf->late = (struct vhost_range){o->late, o->late};
		vf->work = always ? VHOST_ALWAYS : VHOST_PERIODIC;
		vf->burst = (struct vhost_range){w[i].job, w[i].job};
		vf->period = (struct vhost_range){w[i].period, w[i].period};
		vf->think = (struct vhost_range){0, 0};
	}
}

/* Whether a refused set could have been kept whatever its tenants do within their budgets: as it
 * was drawn, and under the hardest use that is tried. */
static bool could_be_kept(const struct scenario *drawn, const struct whole *w,
			  const struct admission_options *o)
{
	struct monitor_result result;
	struct scenario s;
	bool kept = true;
	uint32_t k;

	for (k = 0; k <= HARDER && kept; k++) {
		scenario_copy(&s, drawn);
		settings_set(&s.params, "admission", "sum");
		if (k > 0)
			make_harder(&s, w, o, k - 1);
		kept = run_set(&s, o->policy, NULL, &result) && result.missed == 0;
		scenario_free(&s);
	}
	return kept;
}

static int save(const struct scenario *s, const char *path)
{
	FILE *f = fopen(path, "w");
	int r;

	if (!f)
		return -EIO;
	scenario_write(s, f);
	r = ferror(f);
	return fclose(f) || r ? -EIO : 0;
}

int admission_study(const struct admission_options *o, prove_progress *progress,
		    struct admission_study *out)
{
	struct rng rng = {.state = o->seed};
	struct whole whole[MOST_SERVERS + MOST_BACKGROUND + 1];
	struct monitor_result result;
	struct scenario s;
	bool admitted;
	uint64_t k;
	int r = 0;

	*out = (struct admission_study){.sets = o->sets};
	for (k = 0; k < o->sets && r == 0; k++) {
		memset(whole, 0, sizeof(whole));
		draw_set(&rng, o, &s, whole);
		admitted = run_set(&s, o->policy, o->cover, &result);
		out->admitted += admitted;
		if (admitted && result.missed > 0 && out->missed++ == 0 && o->save)
			r = save(&s, o->save);
		if (admitted) {
			out->deadlines += result.deadlines;
			if (result.worst_miss > out->worst_miss)
				out->worst_miss = result.worst_miss;
		} else if (!o->mode && !o->cover) {
			out->kept_but_refused += could_be_kept(&s, whole, o);
		}
		scenario_free(&s);
		if (progress && k % 64 == 0)
			progress((double)k / (double)o->sets);
	}
	return r;
}
