/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "waits.h"

/* The largest median lateness of timers, as a part of the turns that they end. */
#define LATE_PART 0.25
/* The fewest timers whose median is judged. */
#define LATE_LEAST 16u

struct turn {
	uint32_t vf;
	uint64_t period;
	vgpu_nsec planned; /* from its start to the planned stop; 0: it ended otherwise */
	vgpu_nsec late;	   /* how much after that it was asked to stop */
};

/* Two VFs that have had work since the origin. */
struct pair {
	bool on;
	double base[2];	   /* their services at the origin */
	double carried[2]; /* balance of each at that time, by the policy's own account */
	/* How far a turn of each VF has been from its grant since then, at the most, and the sum.
	 */
	double worst[VGPU_GPU_MAX_VFS], late;
};

struct audited {
	struct vgpu_vf_view v;
	bool works;	/* has work, has not slept since it arrived, and can run */
	double nominal; /* the policy's bound for its lag if no VF had ever been late */
	/* Of its comparisons with other VFs in this period, the one with the most service relative
	 * to the allowed deviation, and both, ns: the more service, the more precise its share. */
	double had, allowed;
	/* A wait: */
	bool waits;
	vgpu_nsec since, bound;
	/* For the whole run: */
	bool seen;
	vgpu_nsec forgiven, beyond; /* values in its ledger before the first judged turn */
};

struct audit {
	vgpu_nsec late; /* largest allowed median lateness of timers */
	uint32_t n_vfs;
	struct record_entry last; /* the last event that was judged */
	bool begun;
	uint64_t skip; /* so many events of this recording have been judged already */
	struct vgpu_core_view core;
	bool stated; /* the bounds are those of this period */
	vgpu_nsec began, granted, asked_at, planned, charged;
	struct turn *turns;
	size_t n_turns, room;
	struct waits waits;
	struct audit_result result;
	struct audited vfs[VGPU_GPU_MAX_VFS];
	struct pair pairs[VGPU_GPU_MAX_VFS][VGPU_GPU_MAX_VFS]; /* the higher number first */
};

struct audit *audit_new(vgpu_nsec late, vgpu_nsec from)
{
	struct audit *a = calloc(1, sizeof(*a));

	if (a) {
		a->late = late;
		a->waits.from = from;
	}
	return a;
}

void audit_free(struct audit *a)
{
	if (a)
		free(a->turns);
	free(a);
}

__attribute__((format(printf, 2, 3))) static void broken(struct audit *a, const char *format, ...)
{
	va_list args;

	if (a->result.n_broken++ > 0)
		return;
	va_start(args, format);
	vsnprintf(a->result.broken, sizeof(a->result.broken), format, args);
	va_end(args);
}

/* Returns the service of a VF, ns, of which the policy knows. A pending charge belongs to the next
 * account, which may forgive it. */
static double service(const struct audited *w)
{
	return (double)w->v.ledger.charged_ns;
}

static double share(const struct audited *w)
{
	return (double)w->v.share_numerator / fmax((double)w->v.share_denominator, 1);
}

/* Returns whether the VF's share is judged: not with a guarantee or a limit, because such shares
 * depend on how much others use. */
static bool is_proportional(const struct audit *a, const struct audited *w)
{
	return a->core.policy->promises & VGPU_PROMISE_PROPORTIONAL && w->v.share_denominator > 0 &&
	       w->v.share_numerator > 0 && w->v.bound.max_lag != VGPU_NEVER &&
	       w->v.bound.budget == 0 && w->v.bound.limit_ppm == 0;
}

/* Sets the bounds: those of a policy that has the same parameters and has seen nothing. */
static void state_bounds(struct audit *a)
{
	const struct vgpu_policy_ops *p = a->core.policy;
	void *state = calloc(1, p->memory(a->core.facts.max_vfs));
	struct vgpu_bound bound;
	const char *why;
	uint32_t i;

	if (state)
		p->attach(state, &a->core.facts, a->core.params);
	for (i = 0; state && i < a->n_vfs; i++)
		if (a->vfs[i].v.admitted)
			p->admit(state, i, a->vfs[i].v.params, 0, &why);
	for (i = 0; i < a->n_vfs; i++) {
		struct audited *w = &a->vfs[i];

		bound = w->v.bound;
		if (state && w->v.admitted)
			p->bound(state, i, &bound);
		w->nominal = (double)bound.max_lag;
	}
	if (state && p->detach)
		p->detach(state, VGPU_DETACH_REPLACED, "");
	free(state);
}

static void begin_period(struct audit *a)
{
	uint32_t i;

	a->stated = true;
	a->result.periods++;
	state_bounds(a);
	for (i = 0; i < a->n_vfs; i++)
		a->vfs[i].had = a->vfs[i].allowed = 0;
}

static void end_pairs_of(struct audit *a, uint32_t vf)
{
	uint32_t i;

	for (i = 0; i < a->n_vfs; i++)
		a->pairs[vf][i].on = a->pairs[i][vf].on = false;
}

/* Returns how far a VF may be from its share, ns: what the policy states, either way, or what the
 * VF was owed at the origin if that was more; and by how much turns since then were longer or
 * shorter than granted. */
static double allowed(const struct audited *w, double carried, double late)
{
	return w->nominal + fmax(w->nominal, carried) + late;
}

static void judge_pair(struct audit *a, struct pair *p, struct audited *x, struct audited *y)
{
	double had[] = {service(x) - p->base[0], service(y) - p->base[1]};
	double apart = had[0] / share(x) - had[1] / share(y);
	double most[] = {allowed(x, p->carried[0], p->late), allowed(y, p->carried[1], p->late)};
	double ratio = fabs(apart) / fmax(most[0] / share(x) + most[1] / share(y), 1);
	struct audited *const both[] = {x, y};
	uint32_t k;

	for (k = 0; k < 2; k++) {
		if (had[k] * fmax(both[k]->allowed, 1) < both[k]->had * most[k])
			continue;
		both[k]->had = had[k];
		both[k]->allowed = most[k];
	}
	a->result.pairs = fmax(a->result.pairs, ratio);
	if (ratio > 1)
		broken(a,
		       "at %.6f s: VF %ld has had %.6f ms and VF %ld %.6f ms, at shares of %.4f "
		       "and "
		       "%.4f: %.2f times as far apart as the bound allows",
		       (double)a->last.now / 1e9, (long)(x - a->vfs), had[0] / 1e6,
		       (long)(y - a->vfs), had[1] / 1e6, share(x), share(y), ratio);
}

/* Judges all pairs. Called when a turn has ended and no VF is on the engine. */
static void judge_pairs(struct audit *a)
{
	uint32_t i, k;

	for (i = 0; i < a->n_vfs; i++) {
		for (k = 0; k < i; k++) {
			struct audited *x = &a->vfs[i], *y = &a->vfs[k];
			struct pair *p = &a->pairs[i][k];

			if (p->on) {
				judge_pair(a, p, x, y);
			} else if (x->works && y->works && is_proportional(a, x) &&
				   is_proportional(a, y)) {
				*p = (struct pair){
					.on = true,
					.base = {service(x), service(y)},
					.carried = {fabs((double)x->v.lag_ns),
						    fabs((double)y->v.lag_ns)},
				};
			}
		}
	}
}

static void turn_was_off(struct audit *a, uint32_t vf, double by)
{
	uint32_t i, k;

	for (i = 0; i < a->n_vfs; i++) {
		for (k = 0; k < i; k++) {
			struct pair *p = &a->pairs[i][k];

			if (by <= p->worst[vf])
				continue;
			p->late += by - p->worst[vf];
			p->worst[vf] = by;
		}
	}
}

/* Stops judging the present waits: the policy's promise does not include windows, resets and
 * changes of policy. */
static void forget_waits(struct audit *a)
{
	uint32_t i;

	for (i = 0; i < a->n_vfs; i++)
		a->vfs[i].waits = false;
}

/* Forgets all comparisons: nothing from before is compared with what follows. */
static void forget(struct audit *a)
{
	a->stated = false;
	memset(a->pairs, 0, sizeof(a->pairs));
	forget_waits(a);
}

static void begin_wait(struct audit *a, struct audited *w, vgpu_nsec now)
{
	w->waits = w->works && a->core.policy->promises & VGPU_PROMISE_NO_STARVATION &&
		   w->v.ledger.debt_ns == 0;
	w->since = now;
	w->bound = w->v.bound.max_wait;
}

static void end_wait(struct audit *a, uint32_t vf, vgpu_nsec now)
{
	struct audited *w = &a->vfs[vf];
	vgpu_nsec bound = w->v.bound.max_wait > w->bound ? w->v.bound.max_wait : w->bound;
	double ratio = (double)(now - w->since) / fmax((double)bound, 1);

	if (!w->waits || bound == VGPU_NEVER)
		return;
	a->result.wait = fmax(a->result.wait, ratio);
	if (ratio > 1)
		broken(a, "at %.6f s: VF %u has waited for %.6f ms, %.6f ms are allowed",
		       (double)now / 1e9, vf, (double)(now - w->since) / 1e6, (double)bound / 1e6);
}

static void add_turn(struct audit *a, const struct turn *t)
{
	size_t room = a->room ? 2 * a->room : 1024;
	struct turn *turns;

	if (a->n_turns == a->room) {
		turns = realloc(a->turns, room * sizeof(*turns));
		if (!turns)
			return;
		a->turns = turns;
		a->room = room;
	}
	a->turns[a->n_turns++] = *t;
}

static void run(struct audit *a, const struct vgpu_record *r)
{
	end_wait(a, r->vf, r->t);
	a->vfs[r->vf].waits = false;
	a->began = r->t;
	a->granted = r->a;
	a->planned = 0;
	a->charged = a->vfs[r->vf].v.ledger.charged_ns;
}

/* Returns what the VF had beyond its grants, ns: overrun, switch time of its own, and fines. */
static vgpu_nsec beyond_grants(const struct audited *w)
{
	return w->v.ledger.overrun_ns + w->v.ledger.switch_ns + w->v.ledger.fined_ns;
}

static void note_ledger(struct audited *w)
{
	w->forgiven = w->v.ledger.forgiven_ns;
	w->beyond = beyond_grants(w);
	w->seen = true;
}

/* Handles the end of a turn. The core's view is that after the stop: the turn has been charged. */
static void stopped(struct audit *a, const struct vgpu_record *r)
{
	struct audited *w = &a->vfs[r->vf];
	double charge = (double)(w->v.ledger.charged_ns - a->charged);
	struct turn t = {.vf = r->vf, .period = a->result.periods};
	double within = (double)(r->a - r->b), beyond = charge - within;

	if (a->began == 0) {
		/* The VF ran when the recording, or this vgpud, began: it is not charged for that
		 * time. */
		note_ledger(w);
		return;
	}
	/* Other VFs cut the turn short, so the VF is owed the rest. */
	if (r->code != VGPU_END_YIELD && within < (double)a->granted)
		beyond = fmax(beyond, (double)a->granted - within);
	turn_was_off(a, r->vf, beyond);
	a->result.turns++;
	if (r->code == VGPU_END_SLICE && a->planned > a->began) {
		t.planned = a->planned - a->began;
		t.late = a->asked_at > a->planned ? a->asked_at - a->planned : 0;
		add_turn(a, &t);
	}
	a->began = 0;
	begin_wait(a, w, r->t);
}

static void read_record(struct audit *a, const struct vgpu_record *r, bool *changed,
			bool *accounted)
{
	switch ((enum vgpu_record_type)r->type) {
	case VGPU_REC_RUN:
		run(a, r);
		break;
	case VGPU_REC_PREEMPT:
		a->asked_at = r->t;
		a->planned = r->code == VGPU_END_SLICE ? r->a : 0;
		break;
	case VGPU_REC_STOP:
		stopped(a, r);
		*accounted = true;
		break;
	case VGPU_REC_WAKE:
		a->vfs[r->vf].works = true;
		begin_wait(a, &a->vfs[r->vf], r->t);
		break;
	case VGPU_REC_SLEEP:
		a->vfs[r->vf].works = a->vfs[r->vf].waits = false;
		end_pairs_of(a, r->vf);
		break;
	case VGPU_REC_STATE:
	case VGPU_REC_POLICY:
	case VGPU_REC_EVICTED:
		*changed = true;
		break;
	case VGPU_REC_WINDOW:
	case VGPU_REC_WINDOW_END:
	case VGPU_REC_HANG:
	case VGPU_REC_RESET:
	case VGPU_REC_RESET_DONE:
		forget_waits(a);
		break;
	case VGPU_REC_COMMAND:
	case VGPU_REC_PARK:
	case VGPU_REC_REFUSED:
	case VGPU_REC_FORGIVEN:
	case VGPU_REC_VIOLATION:
	case VGPU_REC_SERVED:
	case VGPU_REC_PLAN:
	case VGPU_REC_CLAIM:
	case VGPU_REC_CPU:
	case VGPU_REC_COUNT:
		break;
	}
}

static void observe(struct audit *a, const struct vgpu_core *core)
{
	bool can_run;
	uint32_t i;

	vgpu_core_view(core, &a->core);
	for (i = 0; i < a->n_vfs; i++) {
		struct audited *w = &a->vfs[i];

		vgpu_core_vf_view(core, i, &w->v);
		can_run =
			w->v.state == VGPU_VF_ACTIVE && !w->v.held && !w->v.away && !w->v.incoming;
		if (!w->seen || !can_run)
			w->works = can_run && w->v.has_work;
		if (!w->seen)
			note_ledger(w);
		if (!can_run) {
			w->waits = false;
			end_pairs_of(a, i);
		}
	}
}

/* Judges that no VF was forgiven more time than it used beyond its grants. */
static void judge_forgiven(struct audit *a)
{
	uint32_t i;

	for (i = 0; i < a->n_vfs; i++) {
		const struct audited *w = &a->vfs[i];
		vgpu_nsec forgiven = w->v.ledger.forgiven_ns - w->forgiven;
		vgpu_nsec beyond = beyond_grants(w) - w->beyond;

		if (forgiven > beyond)
			broken(a,
			       "VF %u: %.6f ms were not charged, but it had %.6f ms beyond its "
			       "grants",
			       i, (double)forgiven / 1e6, (double)beyond / 1e6);
	}
}

static void stepped(void *arg, const struct replay *replay, const struct vgpu_core *core)
{
	const struct record_entry *e = &replay->entry;
	bool changed = e->result == 0 && (e->type == VGPU_EV_SET_VF ||
					  e->type == VGPU_EV_SET_POLICY || e->type == VGPU_EV_ADD);
	bool accounted = false;
	struct audit *a = arg;
	uint32_t i;

	if (replay->at < a->skip)
		return;
	a->last = *e;
	observe(a, core);
	if (a->result.events++ == 0)
		a->result.begin = a->core.engine.wall_ns;
	waits_step(&a->waits, core, a->n_vfs, a->core.engine.wall_ns);
	for (i = 0; i < replay->out.n_records; i++)
		read_record(a, &replay->out.records[i], &changed, &accounted);
	if (changed)
		forget(a);
	if (!accounted)
		return;
	if (!a->stated)
		begin_period(a);
	judge_pairs(a);
	judge_forgiven(a);
}

static bool is_same(const struct record_entry *x, const struct record_entry *y)
{
	return x->now == y->now && x->type == y->type && x->vf == y->vf && x->code == y->code &&
	       x->value == y->value && x->hash == y->hash && x->result == y->result;
}

/* Begins anew after a gap between recordings: nothing is compared across it. */
static void begin_anew(struct audit *a)
{
	uint32_t i;

	a->result.gaps += a->begun;
	a->began = 0;
	a->waits.last = 0;
	forget(a);
	for (i = 0; i < a->n_vfs; i++)
		a->vfs[i].seen = false;
}

int audit_add(struct audit *a, const struct recording *r,
	      const struct vgpu_policy_ops *(*find)(const char *name), struct vgpu_error *err)
{
	static struct replay replay;
	const struct replay_watch watch = {stepped, a};
	uint64_t n = r->header.n_entries, i = n;
	int e;

	if (r->header.governor_size)
		return vgpu_error_set(err, -EINVAL,
				      "of a GPU whose firmware schedules: 'vgpuctl verify' judges "
				      "those");
	if (a->begun && r->header.max_vfs != a->n_vfs)
		return vgpu_error_set(err, -EINVAL, "of another GPU than the recording before it");
	if (a->begun && (n == 0 || r->entries[n - 1].now < a->last.now))
		return vgpu_error_set(err, -EINVAL, "older than the recording before it");
	a->n_vfs = r->header.max_vfs;
	while (a->begun && i > 0 && !is_same(&r->entries[i - 1], &a->last))
		i--;
	a->skip = a->begun ? i : 0;
	if (a->skip == 0)
		begin_anew(a);
	e = recording_replay(r, find, &watch, &replay, err);
	if (e < 0)
		return e;
	if (replay.differs)
		return vgpu_error_set(err, -EINVAL, "event %llu differs from what was recorded",
				      (unsigned long long)replay.at);
	a->begun = true;
	return 0;
}

static int by_size(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

/* Sorts N values, and returns their median; 0 if there are none. */
static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_size);
	return n ? values[n / 2] : 0;
}

static void judge_timers(const struct audit *a, double *room, struct audit_result *out)
{
	size_t i;

	for (i = 0; i < a->n_turns; i++) {
		room[i] = (double)a->turns[i].late;
		out->late_max_ns =
			room[i] > (double)out->late_max_ns ? a->turns[i].late : out->late_max_ns;
	}
	out->timed = a->n_turns;
	out->late_ns = (vgpu_nsec)median(room, a->n_turns);
	for (i = 0; i < a->n_turns; i++)
		room[i] = (double)a->turns[i].late / (double)a->turns[i].planned;
	out->late_part = median(room, a->n_turns);
	if (a->n_turns >= LATE_LEAST && out->late_part > LATE_PART && out->late_ns > a->late &&
	    out->n_broken++ == 0)
		snprintf(out->broken, sizeof(out->broken),
			 "half of the turns were asked to end %.0f %% of their length after the "
			 "planned instant, or later; %.0f %% are allowed",
			 100 * out->late_part, 100 * LATE_PART);
}

void audit_finish(const struct audit *a, struct audit_result *out)
{
	double *room = calloc(a->n_turns + 1, sizeof(*room));
	uint32_t i;
	size_t k, n;

	*out = a->result;
	out->n_vfs = a->n_vfs;
	for (i = 0; i < a->n_vfs; i++) {
		const struct audited *w = &a->vfs[i];
		struct audit_vf *vf = &out->vfs[i];

		*vf = (struct audit_vf){
			.active = w->v.state == VGPU_VF_ACTIVE,
			.share = share(w),
			.had_ns = w->had,
			.allowed_ns = w->allowed,
			.waited_ns = a->waits.vfs[i].longest,
			.asleep_ns = a->waits.vfs[i].asleep,
			.naps = a->waits.vfs[i].naps,
		};
		for (k = n = 0; room && k < a->n_turns; k++)
			if (a->turns[k].vf == i && a->turns[k].period == out->periods)
				room[n++] = (double)a->turns[k].planned;
		vf->turns = n;
		vf->planned_ns = room ? (vgpu_nsec)median(room, n) : 0;
	}
	if (room)
		judge_timers(a, room, out);
	free(room);
}
