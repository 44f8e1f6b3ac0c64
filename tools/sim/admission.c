/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "admission.h"
#include "peer.h"
#include "random.h"

#define MOST_SERVERS 8u
#define SHORTEST_PERIOD (5 * VGPU_MSEC)
/* One of this many sets is compared with the largest scale that is kept. */
#define COMPARED 8u

/* What a server asks for and does, as drawn. Its budget is SHARE of its period times the scale of
 * the set. With a fixed budget, the period becomes shorter as the scale grows. */
struct server_drawn {
	vgpu_nsec period, fixed;
	double share;
	enum vhost_work work;
	bool frames;	  /* `qos`: a number of frames a second */
	bool spares;	  /* jobs leave room for what is charged after their work */
	bool long_job;	  /* jobs are nearly of the whole budget */
	vgpu_nsec budget; /* at the scale that was set last */
	vgpu_nsec job;	  /* the budget, less what is charged after the work; 0: there is no room */
};

struct drawn {
	struct scenario s;
	struct server_drawn servers[MOST_SERVERS];
	uint32_t n;
};

/* Returns the unit of periods, ns: long enough for what is covered, a grace of 50 ms or a window of
 * 1 s. */
static vgpu_nsec scale(const struct admission_options *o)
{
	return !o->cover ? 1 : strcmp(o->cover, "windows") == 0 ? 100 : 10;
}

static void draw_gpu(struct rng *r, const struct admission_options *o, struct scenario *s)
{
	vgpu_nsec half = o->switch_ns / 2;

	s->seed = random_draw(r) >> 1;
	snprintf(s->policy, sizeof(s->policy), "%s", o->policy->name);
	random_set_number(&s->params, "cap_pct", o->cap_pct);
	random_set_number(&s->params, "late_us", (int64_t)(o->late / VGPU_USEC));
	if (o->mode)
		settings_set(&s->params, "admission", o->mode);
	if (o->reclaim)
		settings_set(&s->params, "reclaim", "grub");
	if (o->cover) {
		settings_set(&s->params, "cover", o->cover);
		settings_set(&s->params, "slice_us", "50000");
	}
	s->load = (struct vhost_range){o->vary ? half / 2 : half, half};
	s->min_slice = s->min_run = o->min_slice;
	s->work_from = 500 * VGPU_MSEC;
	s->until = s->work_from + (o->cover ? 500 : 1500) * VGPU_MSEC * scale(o);
}

/* What a VF uses of its next budget after its work: until the device reports that it has none, and
 * until it has stopped. */
#define AFTER_WORK (150 * VGPU_USEC)

/* Draws a period: in half of the cases one of those that people use, otherwise any. */
static void draw_period(struct rng *r, const struct admission_options *o, struct server_drawn *v)
{
	static const uint64_t usual_ms[] = {8, 16, 33, 50, 100};
	bool qos = strcmp(o->policy->name, "qos") == 0;

	v->frames = qos && random_one_in(r, 4);
	if (v->frames)
		v->period = VGPU_SEC / random_between(r, 10, 200) * scale(o);
	else if (random_one_in(r, 2))
		v->period = usual_ms[random_draw(r) % 5] * VGPU_MSEC * scale(o);
	else if (qos)
		v->period = random_between(r, 5, 100) * VGPU_MSEC;
	else
		v->period = random_between(r, 5000, 100000) * VGPU_USEC * scale(o);
}

/* Draws a budget of up to three late stops or shortest slices, and a period in which N such budgets
 * have room. */
static void draw_brief(struct rng *r, const struct admission_options *o, uint32_t n,
		       struct server_drawn *v)
{
	vgpu_nsec unit = (o->late > o->min_slice ? o->late : o->min_slice) / VGPU_USEC;
	vgpu_nsec room = 4 * n * (unit + o->switch_ns / VGPU_USEC);

	v->fixed = random_between(r, unit, 3 * unit) * VGPU_USEC;
	v->period = random_between(r, room, 4 * room) * VGPU_USEC;
	v->share = (double)v->fixed / (double)v->period;
}

/* Draws what a VF does: it always works, or has jobs of up to its budget, at ticks or with pauses
 * between. Half of those leave room for what is charged after the work. */
static void draw_work(struct rng *r, struct server_drawn *v)
{
	v->work = VHOST_ALWAYS;
	if (random_one_in(r, 3))
		return;
	v->spares = random_one_in(r, 2);
	v->long_job = random_one_in(r, 2);
	/* A pause is a period at least: each job arrives a period after the one before. */
	v->work = random_one_in(r, 2) ? VHOST_PERIODIC : VHOST_BURSTS;
}

/*
 * Draws 2 to 8 servers, as the reference study does. In a third of the sets all VFs stop late
 * together, each time by as much as the policy was told; in a third none stops late, so that what
 * is left of a budget is exactly nothing. In a half of them all shares are of the same order, so
 * that none is too small when the set is scaled. In a quarter of those of `deadline` budgets are
 * little more than a late stop, and periods are scaled.
 */
static void draw_set(struct rng *r, const struct admission_options *o, struct drawn *d)
{
	uint32_t n = (uint32_t)random_between(r, 2, MOST_SERVERS), i;
	double all = 0, load = (double)random_between(r, 300, 1000) / 1000;
	uint64_t lateness = random_draw(r) % 3;
	bool alike = random_one_in(r, 2);
	bool brief = random_one_in(r, 4) && strcmp(o->policy->name, "deadline") == 0;
	vgpu_nsec half = o->switch_ns / 2;

	*d = (struct drawn){.n = n};
	scenario_init(&d->s, n + o->background + (o->cover != NULL));
	draw_gpu(r, o, &d->s);
	for (i = 0; i < n; i++) {
		d->servers[i].share = (double)random_between(r, alike ? 300 : 1, 1000);
		all += d->servers[i].share;
	}
	for (i = 0; i < d->s.n_vfs; i++) {
		struct scenario_vf *vf = &d->s.vfs[i];

		vf->late = (struct vhost_range){lateness == 0 ? o->late : 0,
						lateness == 2 ? 0 : o->late};
		vf->save = (struct vhost_range){o->vary ? half / 2 : o->switch_ns - half,
						o->switch_ns - half};
		if (i == n + o->background)
			vf->work = VHOST_NEVER;
		if (i >= n)
			continue;
		d->servers[i].share *= load / all;
		draw_period(r, o, &d->servers[i]);
		if (brief)
			draw_brief(r, o, n, &d->servers[i]);
		draw_work(r, &d->servers[i]);
	}
}

/* Sets what server V, of VF, has at SCALE, and how long its jobs are. */
static void scale_server(const struct admission_options *o, struct server_drawn *v,
			 struct scenario_vf *vf, double by)
{
	vgpu_nsec after = AFTER_WORK + vf->late.max, most;
	double share = v->share * by;

	if (v->fixed) {
		v->period = (vgpu_nsec)((double)v->fixed / share / 1e3) * VGPU_USEC;
		v->period = v->period < SHORTEST_PERIOD ? SHORTEST_PERIOD : v->period;
	}
	if (strcmp(o->policy->name, "deadline") == 0) {
		v->budget = v->fixed ? v->fixed
				     : (vgpu_nsec)(share * (double)v->period / 1e3) * VGPU_USEC;
		random_set_number(&vf->params, "budget_us", (int64_t)(v->budget / VGPU_USEC));
		random_set_number(&vf->params, "period_us", (int64_t)(v->period / VGPU_USEC));
	} else if (v->frames) {
		v->budget = (vgpu_nsec)(share * (double)v->period / 1e3) * VGPU_USEC;
		random_set_number(&vf->params, "frame_us",
				  (int64_t)(v->budget < 500 * VGPU_USEC ? 500
									: v->budget / VGPU_USEC));
		random_set_number(&vf->params, "fps", (int64_t)(VGPU_SEC / v->period));
	} else {
		random_set_number(&vf->params, "min_ppm", (int64_t)(share * 1e6));
		random_set_number(&vf->params, "period_ms", (int64_t)(v->period / VGPU_MSEC));
		v->budget = v->period / 1000000 * (vgpu_nsec)(share * 1e6);
	}
	v->job = v->budget > 2 * (AFTER_WORK + o->late) ? v->budget - AFTER_WORK - o->late : 0;
	vf->work = v->budget > 2 ? v->work : VHOST_ALWAYS;
	most = v->budget > 2 ? v->budget - 1 : 1;
	if (v->spares && most > 2 * after)
		most -= after;
	/* A tenant adds one nanosecond to the value that it draws. */
	vf->burst = (struct vhost_range){v->long_job ? most - most / 10 : most / 4, most};
	vf->period = (struct vhost_range){v->period, v->period};
	vf->think = vf->work == VHOST_BURSTS
			    ? (struct vhost_range){v->period, v->period + v->period / 4}
			    : (struct vhost_range){0, 0};
}

static void scale_set(const struct admission_options *o, struct drawn *d, double by)
{
	uint32_t i;

	for (i = 0; i < d->n; i++)
		scale_server(o, &d->servers[i], &d->s.vfs[i], by);
}

/* Plans an event in the middle of the run: a VF hangs at its next stop, or the last VF, which has
 * no work, takes an exclusive window. The others must get their budgets nevertheless. */
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

/* Runs a set. COVER as in the options. Returns false if the policy refuses a part of it. */
static bool run_set(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    const char *cover, struct monitor_result *result, uint64_t *decisions)
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
	/* This study judges budgets only. */
	r.host.quiet = r.host.goes_on = true;
	r.host.monitor = monitor_new(&r.host, MONITOR_BUDGETS);
	if (admitted && cover)
		happens(&r, s, strcmp(cover, "windows") == 0);
	if (admitted)
		running_run(&r, s->until);
	*decisions += r.host.switches;
	monitor_finish(r.host.monitor, result);
	monitor_free(r.host.monitor);
	running_finish(&r);
	return admitted;
}

#define HARDER 9u

/* How many of these uses are tried for a scaled set. */
#define AT_BOUNDARY 3u

/*
 * Makes the VFs use the same budgets as hard as possible: they always work, or, after the first
 * three tries, have jobs of their whole budget in each period, at other instants in each try. Of
 * each three tries, in the first all stop as late as allowed; in the second none is late; in the
 * third they are late for some periods and then in time for as many, because a VF that is always
 * late has already paid for that. Where switches vary, in every second try all of them take the
 * longest time: drawn ones hardly ever follow each other for a whole period.
 */
static void make_harder(struct scenario *s, const struct drawn *d,
			const struct admission_options *o, uint32_t k)
{
	struct rng r = {.state = s->seed + k};
	vgpu_nsec span = random_between(&r, 5, 150) * VGPU_MSEC;
	uint32_t i;

	s->seed += k;
	if (k % 2 == 0)
		s->load.min = s->load.max;
	for (i = 0; i < s->n_vfs; i++) {
		const struct server_drawn *v = i < d->n ? &d->servers[i] : NULL;
		struct scenario_vf *vf = &s->vfs[i];
		bool always = k < 3 || !v || v->job == 0 || random_one_in(&r, 2);

		vf->late.min = vf->late.max = k % 3 == 1 ? 0 : o->late;
		vf->late_span.min = vf->late_span.max = k % 3 == 2 ? span : 0;
		if (k % 2 == 0)
			vf->save.min = vf->save.max;
		if (vf->work == VHOST_NEVER)
			continue;
		vf->work = always ? VHOST_ALWAYS : VHOST_PERIODIC;
		vf->burst = v ? (struct vhost_range){v->job, v->job} : vf->burst;
	}
}

/* Returns whether the set, at its scale, can be kept whatever its tenants do within their budgets:
 * as it was drawn, and under the hardest use that is tried. */
static bool could_be_kept(const struct drawn *d, const struct admission_options *o)
{
	struct monitor_result result;
	uint64_t decisions = 0;
	struct scenario s;
	bool kept = true;
	uint32_t k;

	for (k = 0; k <= HARDER && kept; k++) {
		scenario_copy(&s, &d->s);
		settings_set(&s.params, "admission", "sum");
		if (k > 0)
			make_harder(&s, d, o, k - 1);
		kept = run_set(&s, o->policy, NULL, &result, &decisions) && result.missed == 0;
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

/* Adds the result of an admitted set. Returns 0, or -EIO if the first set that misses cannot be
 * saved. */
static int judge(struct admission_study *out, const struct admission_options *o,
		 const struct scenario *s, const struct monitor_result *result)
{
	out->runs++;
	out->deadlines += result->deadlines;
	if (result->worst_miss > out->worst_miss)
		out->worst_miss = result->worst_miss;
	if (result->missed == 0 || out->missed++ > 0)
		return 0;
	if (o->missing)
		scenario_copy(o->missing, s);
	return o->save ? save(s, o->save) : 0;
}

/* Tests the set as it was drawn. Returns 0 or judge()'s error. */
static int try_drawn(const struct admission_options *o, struct drawn *d,
		     struct admission_study *out)
{
	struct monitor_result result;

	scale_set(o, d, 1);
	out->sets++;
	if (run_set(&d->s, o->policy, o->cover, &result, &out->decisions)) {
		out->admitted++;
		return judge(out, o, &d->s, &result);
	}
	if (!o->mode && !o->cover && o->compares)
		out->kept_but_refused += could_be_kept(d, o);
	return 0;
}

/* Returns whether the policy admits the set at scale BY. */
static bool is_admitted(const struct admission_options *o, struct drawn *d, double by)
{
	struct vgpu_error err;
	struct running r;
	bool admitted;

	scale_set(o, d, by);
	if (running_start(&r, &d->s, 0, o->policy, false, VHOST_MEMORY_NONE, peer_or_policy, &err) <
	    0)
		abort(); /* cannot fail: the parameters are in their ranges */
	admitted = running_refused(&r) == 0;
	running_finish(&r);
	return admitted;
}

static bool is_kept(const struct admission_options *o, struct drawn *d, double by)
{
	scale_set(o, d, by);
	return could_be_kept(d, o);
}

/* Returns the largest scale between LOW and HIGH for which HOLDS is true; it must be true for LOW.
 */
static double boundary(const struct admission_options *o, struct drawn *d, double low, double high,
		       double precision,
		       bool (*holds)(const struct admission_options *o, struct drawn *d, double by))
{
	double middle;

	while (high - low > precision * low) {
		middle = (low + high) / 2;
		if (holds(o, d, middle))
			low = middle;
		else
			high = middle;
	}
	return low;
}

/*
 * Returns the scale at which budgets, with a switch in each period, reach the cap or the whole
 * engine, or the first period that is scaled is the shortest that a policy allows. *LEAST: the
 * scale at which the smallest budget is a shortest slice.
 */
static double most_of(const struct admission_options *o, const struct drawn *d, double *least)
{
	double all = 0, low, cap = (double)o->cap_pct / 100, shortest = INFINITY;
	uint32_t i;

	*least = 0.05; /* of a set with fixed budgets */
	for (i = 0; i < d->n; i++) {
		all += d->servers[i].share;
		if (o->cap_pct < 100 && d->servers[i].fixed)
			all += (double)o->switch_ns * d->servers[i].share /
			       (double)d->servers[i].fixed;
		else if (o->cap_pct < 100)
			cap -= (double)o->switch_ns / (double)d->servers[i].period;
		/* One unit more, of budget or share, because both are rounded down. */
		low = ((double)o->min_slice / (double)d->servers[i].period + 1e-6 +
		       1000.0 / (double)d->servers[i].period) /
		      d->servers[i].share;
		*least = low > *least && !d->servers[i].fixed ? low : *least;
		if (d->servers[i].fixed)
			shortest = fmin(shortest, (double)d->servers[i].fixed /
							  d->servers[i].share / SHORTEST_PERIOD);
	}
	return fmin(cap / all, shortest);
}

/*
 * Tests the set at the largest scale that the policy admits, where a fault of the admission test
 * shows: as it was drawn, and under uses that are as hard as possible. With COMPARE, that scale is
 * compared with the largest one that is kept. Returns 0 or judge()'s error.
 */
static int try_boundary(const struct admission_options *o, struct drawn *d, bool compare,
			struct admission_study *out)
{
	/* VFs that always work leave nothing to reclaim, so jobs with pauses are tried, too. */
	const uint32_t uses = o->reclaim ? 2 * AT_BOUNDARY : AT_BOUNDARY;
	struct monitor_result result;
	double least, most = most_of(o, d, &least), at, kept;
	struct scenario s;
	uint32_t k;
	int r;

	if (least >= most || !is_admitted(o, d, least))
		return 0;
	at = boundary(o, d, least, most, 1e-4, is_admitted);
	scale_set(o, d, at);
	out->scaled++;
	if (!run_set(&d->s, o->policy, o->cover, &result, &out->decisions))
		abort(); /* cannot fail: it was admitted at this scale */
	r = judge(out, o, &d->s, &result);
	for (k = 0; k < uses && r == 0; k++) {
		scenario_copy(&s, &d->s);
		make_harder(&s, d, o, k);
		run_set(&s, o->policy, o->cover, &result, &out->decisions);
		r = judge(out, o, &s, &result);
		scenario_free(&s);
	}
	if (compare) {
		kept = boundary(o, d, at, most, 2e-3, is_kept);
		out->compared++;
		out->reached += at / kept;
	}
	return r;
}

void admission_kind(struct rng *r, const struct vgpu_policy_ops *policy,
		    struct admission_options *out)
{
	*out = (struct admission_options){
		.policy = policy,
		.sets = 1,
		.seed = random_draw(r),
		.switch_ns = random_one_in(r, 2) ? 300 * VGPU_USEC : VGPU_MSEC,
		.min_slice = random_one_in(r, 4) ? 2 * VGPU_MSEC : 500 * VGPU_USEC,
		.late = random_between(r, 0, 5) * 100 * VGPU_USEC,
		.background = (uint32_t)random_between(r, 0, 1),
		.cap_pct = random_one_in(r, 4) ? 90 : 100,
		.vary = random_one_in(r, 4),
		.reclaim = random_one_in(r, 2) && strcmp(policy->name, "deadline") == 0,
	};
}

int admission_study(const struct admission_options *o, prove_progress *progress,
		    struct admission_study *out)
{
	struct rng rng = {.state = o->seed};
	struct drawn d;
	uint64_t k;
	int r = 0;

	*out = (struct admission_study){.sets = 0};
	for (k = 0; k < o->sets && r == 0; k++) {
		draw_set(&rng, o, &d);
		r = try_drawn(o, &d, out);
		if (r == 0 && !o->mode)
			r = try_boundary(o, &d, o->compares && k % COMPARED == 0 && !o->cover, out);
		scenario_free(&d.s);
		if (progress && k % 64 == 0)
			progress((double)k / (double)o->sets);
	}
	return r;
}
