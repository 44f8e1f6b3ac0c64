/* SPDX-License-Identifier: MIT */
/*
 * qos: a guarantee, a limit, and a weight for the rest. Three rules, in this order:
 *
 *   guarantee  VFs with a guarantee that they have not had in this period run first, by EDF on
 *              constant-bandwidth servers; admission ensures that all guarantees can be kept
 *   excess     the rest goes to all VFs that have work, those with guarantees too, by weight
 *              (EEVDF)
 *   limit      a token bucket, filled at the rate of the limit; a VF without tokens runs only for
 *              its guarantee, which its limit always covers; and not even for that while it owes
 *              more than one budget, which only an overrun can cause
 *
 * (cgroup cpu.max with its burst, Run:ai's fair mode, qGPU's burst share; with bounds.)
 */
#include "eevdf_bound.h"
#include "promises.h"

enum { P_SLICE, P_CAP, P_LATE, P_ADMISSION };
enum { V_MIN, V_MAX, V_PERIOD, V_BURST, V_WEIGHT, V_LATENCY_SLICE, V_FPS, V_FRAME };

#define MILLION 1000000u

struct vf {
	bool awake;
	uint32_t max_ppm;
	int64_t depth;	/* capacity of its token bucket, ns */
	int64_t tokens; /* ns, at `filled` */
	vgpu_nsec paid; /* the part of this dispatch that is taken out of its bucket already, or was
			 * used before it had a limit, ns */
	int64_t early;	/* the most that it was charged beyond its tokens because its grant counted
			 * some ahead of time, ns */
	vgpu_nsec filled;
	uint64_t rest; /* fraction of a token that is carried: ns * ppm modulo a million */
};

struct qos {
	struct servers s;
	struct promises promises;
	struct eevdf e;
	int64_t params[P_ADMISSION + 1];
	uint32_t current;
	bool served;	       /* the current VF is charged to its guarantee */
	vgpu_nsec now;	       /* the latest instant that the core has passed to the policy */
	vgpu_nsec started;     /* when the current VF began to run; 0: not yet */
	vgpu_nsec settled;     /* the part of its service that its guarantee is charged already,
				* ns */
	vgpu_nsec counted;     /* the instant up to which its tokens were counted when its grant was
				* prolonged last; 0: it was not */
	uint32_t counted_ppm;  /* its limit then */
	struct heap throttled; /* VFs with work but without tokens, by when they will have some */
	struct heap held;      /* throttled VFs whose guarantee is held back, too */
	struct vf *own;
	struct eevdf_vf vfs[];
};

static const struct vgpu_param params[] = {
	[P_SLICE] = {"slice_us", "us", "length of a turn in the time that guarantees leave",
		     VGPU_PARAM_INT, 500, 500000, 4000, NULL},
	[P_CAP] = {"cap_pct", "%",
		   "largest part of the engine's time that all guarantees may take together",
		   VGPU_PARAM_INT, 1, 100, 90, NULL},
	[P_LATE] = {"late_us", "us",
		    "how late a VF may stop before the guarantees of other VFs are at risk",
		    VGPU_PARAM_INT, 0, 100000, 500, NULL},
	[P_ADMISSION] = ADMISSION_PARAM,
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {
	[V_MIN] = {"min_ppm", "ppm", "guaranteed part of the engine's time", VGPU_PARAM_INT, 0,
		   MILLION, 0, NULL},
	[V_MAX] = {"max_ppm", "ppm", "limit: largest part of the engine's time", VGPU_PARAM_INT,
		   1000, MILLION, MILLION, NULL},
	[V_PERIOD] = {"period_ms", "ms", "period of the guarantee", VGPU_PARAM_INT, 5, 10000, 33,
		      NULL},
	[V_BURST] = {"burst_ms", "ms",
		     "engine time below the limit that the VF may save up and use later",
		     VGPU_PARAM_INT, 0, 10000, 0, NULL},
	[V_WEIGHT] = {"weight", "",
		      "share of the time that guarantees leave, relative to the other VFs' weights",
		      VGPU_PARAM_INT, 1, 10000, 100, NULL},
	[V_LATENCY_SLICE] =
		{"latency_slice_us", "us",
		 "length of this VF's turns in the time that guarantees leave; 0: slice_us",
		 VGPU_PARAM_INT, 0, 500000, 0, NULL},
	[V_FPS] = {"fps", "",
		   "guaranteed frames per second, of frame_us each; 0: the guarantee is min",
		   VGPU_PARAM_INT, 0, 200, 0, NULL},
	[V_FRAME] = {"frame_us", "us", "engine time of one frame, if fps is set", VGPU_PARAM_INT,
		     500, 200000, 8000, NULL},
	{.name = NULL},
};

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct qos) + max_vfs * (sizeof(struct eevdf_vf) + sizeof(struct vf)) +
	       servers_memory(max_vfs) + promises_memory(max_vfs) + eevdf_memory(max_vfs) +
	       2 * heap_memory(max_vfs);
}

/* Returns the rules of admission under the given parameters. */
static struct admission rules(const struct qos *q, const int64_t *values)
{
	return promises_rules(&q->s, values[P_ADMISSION], values[P_CAP],
			      (vgpu_nsec)values[P_LATE] * VGPU_USEC, 0);
}

/* Computes what depends on guarantees and rules. Must be called when they have changed. */
static void changed(struct qos *q)
{
	struct admission a = rules(q, q->params);

	promises_changed(&q->promises, &q->s, &a);
}

static bool check_params(void *state, const int64_t *values, vgpu_nsec now, const char **why)
{
	struct qos *q = state;
	struct admission then = rules(q, values), at_present = rules(q, q->params);

	(void)now;
	return promises_may_change(&q->promises, &q->s, &at_present, &then, why);
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct qos *q = state;
	uint32_t i;

	(void)now;
	eevdf_set_slice(&q->e, (vgpu_nsec)values[P_SLICE] * VGPU_USEC);
	for (i = 0; i <= P_ADMISSION; i++)
		q->params[i] = values[i];
	changed(q);
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct qos *q = state;
	void *rest = &q->vfs[facts->max_vfs];

	rest = servers_init(&q->s, facts, rest);
	rest = promises_init(&q->promises, rest, facts->max_vfs);
	rest = eevdf_init(&q->e, facts, q->vfs, rest);
	rest = heap_init(&q->throttled, rest, facts->max_vfs);
	q->own = heap_init(&q->held, rest, facts->max_vfs);
	q->current = VGPU_NO_VF;
	set_params(state, values, 0);
}

/* Fills the bucket up to NOW; fractions of a token are carried. */
static void fill(struct vf *vf, vgpu_nsec now)
{
	vgpu_nsec since = now > vf->filled ? now - vf->filled : 0;
	unsigned __int128 units = (unsigned __int128)since * vf->max_ppm + vf->rest;

	vf->filled = now > vf->filled || vf->filled == VGPU_NEVER ? now : vf->filled;
	vf->tokens += (int64_t)(units / MILLION);
	vf->rest = (uint64_t)(units % MILLION);
	if (vf->tokens > vf->depth)
		vf->tokens = vf->depth;
}

static bool is_limited(const struct vf *vf)
{
	return vf->max_ppm < MILLION;
}

/* Returns when the VF will have TOKENS. */
static vgpu_nsec tokens_at(const struct vf *vf, int64_t tokens)
{
	int64_t missing = tokens - vf->tokens;

	return vf->filled +
	       (vgpu_nsec)((unsigned __int128)(missing > 0 ? missing : 0) * MILLION / vf->max_ppm) +
	       1;
}

/* Queues a VF that is not dispatched for its guarantee and for excess, or removes it from either,
 * according to its work and its tokens. */
static void place(struct qos *q, uint32_t index, vgpu_nsec now)
{
	struct vf *vf = &q->own[index];
	int64_t least = (int64_t)q->s.facts->min_slice_ns;
	int64_t owing = -(int64_t)q->s.cbs[index].budget;
	bool limited = is_limited(vf), may, serve;

	heap_remove(&q->throttled, index);
	heap_remove(&q->held, index);
	fill(vf, now);
	may = vf->awake && (!limited || vf->tokens >= least);
	serve = vf->awake && (!limited || vf->tokens >= owing);
	if (serve && !q->s.cbs[index].awake)
		servers_wake(&q->s, index, now);
	else if (!serve && q->s.cbs[index].awake)
		servers_sleep(&q->s, index);
	if (may && !q->vfs[index].competes)
		eevdf_wake(&q->e, index, now);
	else if (!may && q->vfs[index].competes)
		eevdf_sleep(&q->e, index, now);
	if (vf->awake && !may)
		heap_insert(&q->throttled, index, tokens_at(vf, serve ? least : owing));
	if (vf->awake && !serve && owing < 0)
		heap_insert(&q->held, index, tokens_at(vf, owing));
}

static void advance(struct qos *q, vgpu_nsec now)
{
	q->now = now;
	servers_advance(&q->s, now);
	while (q->throttled.n && q->throttled.entries[0].key <= now)
		place(q, q->throttled.entries[0].vf, now);
}

/* Sets a guarantee, ns. BUDGET and PERIOD must have been admitted. */
static void set_server(struct qos *q, uint32_t index, vgpu_nsec budget, vgpu_nsec period,
		       vgpu_nsec now)
{
	bool is_new = q->s.cbs[index].budget || budget;

	servers_set(&q->s, index, budget, period, q->current == index, now);
	if (is_new)
		changed(q);
}

/* Takes what the VF has used of its dispatch by NOW out of its bucket. Must be called before the
 * capacity changes, which may reduce the bucket's content. A VF that has had no limit begins with
 * an empty bucket now. */
static void pay(struct qos *q, uint32_t index, vgpu_nsec now)
{
	vgpu_nsec ran = q->current == index && q->started ? now - q->started : 0;
	struct vf *vf = &q->own[index];

	fill(vf, now);
	vf->tokens = is_limited(vf) ? vf->tokens - (int64_t)(ran - vf->paid) : 0;
	vf->paid = ran;
}

static bool set_vf(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		   const char **why)
{
	struct qos *q = state;
	vgpu_nsec period = (vgpu_nsec)values[V_PERIOD] * VGPU_MSEC;
	vgpu_nsec budget = period * (vgpu_nsec)values[V_MIN] / MILLION;
	struct admission a = rules(q, q->params);
	struct vf *vf = &q->own[index];

	if (values[V_FPS]) {
		period = VGPU_SEC / (vgpu_nsec)values[V_FPS];
		budget = (vgpu_nsec)values[V_FRAME] * VGPU_USEC;
	}
	if (budget * MILLION > period * (vgpu_nsec)values[V_MAX]) {
		*why = "the guarantee is larger than the limit, max";
		return false;
	}
	if (budget && !promises_admit(&q->promises, &q->s, &a, index, budget, period,
				      values[V_FPS] ? PROMISES_FRAME : PROMISES_SHARE, why))
		return false;
	set_server(q, index, budget, period, now);
	eevdf_set(&q->e, index, (uint32_t)values[V_WEIGHT],
		  (vgpu_nsec)values[V_LATENCY_SLICE] * VGPU_USEC, now);
	pay(q, index, now);
	vf->max_ppm = (uint32_t)values[V_MAX];
	vf->depth = (int64_t)((vgpu_nsec)vf->max_ppm * period / MILLION +
			      (vgpu_nsec)values[V_BURST] * VGPU_MSEC);
	if (vf->depth < 2 * (int64_t)q->s.facts->min_slice_ns)
		vf->depth = 2 * (int64_t)q->s.facts->min_slice_ns;
	if (vf->tokens > vf->depth)
		vf->tokens = vf->depth;
	if (q->current != index)
		place(q, index, now);
	return true;
}

static bool admit(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		  const char **why)
{
	struct qos *q = state;

	q->own[index].filled = now;
	if (q->own[index].tokens > 0) /* a debt of tokens is kept */
		q->own[index].tokens = 0;
	if (!set_vf(state, index, values, now, why))
		return false;
	q->vfs[index].admitted = true;
	return true;
}

static void online(void *state, uint32_t index, vgpu_nsec now)
{
	struct qos *q = state;

	fill(&q->own[index], now);
	servers_online(&q->s, index, now);
}

static void offline(void *state, uint32_t index, vgpu_nsec now)
{
	(void)state;
	(void)index;
	(void)now;
}

static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct qos *q = state;

	advance(q, now);
	q->own[index].awake = true;
	place(q, index, now);
	if (q->current == VGPU_NO_VF)
		return true;
	if (q->served)
		return servers_preempts(&q->s, index, q->s.cbs[q->current].deadline);
	return servers_preempts(&q->s, index, VGPU_NEVER) ||
	       (q->vfs[index].competes && eevdf_preempts(&q->e, index));
}

static void sleep_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct qos *q = state;

	q->own[index].awake = false;
	place(q, index, now);
}

static void remove_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct qos *q = state;

	if (q->own[index].awake)
		sleep_vf(state, index, now);
	set_server(q, index, 0, q->s.cbs[index].period, now);
	q->vfs[index].admitted = false;
}

/* Returns SLICE, shortened to end at INSTANT, but not below what is worth a switch. */
static vgpu_nsec end_by(const struct qos *q, vgpu_nsec slice, vgpu_nsec now, vgpu_nsec instant)
{
	vgpu_nsec start = now + q->s.facts->switch_ns, least = q->s.facts->min_slice_ns;

	if (instant == VGPU_NEVER || instant >= start + slice)
		return slice;
	return instant > start + least ? instant - start : slice < least ? slice : least;
}

/* Returns SLICE, shortened to the VF's tokens, of which USED are spent but not subtracted yet;
 * ns. */
static vgpu_nsec within_limit(const struct vf *vf, vgpu_nsec used, vgpu_nsec slice)
{
	int64_t left = vf->tokens - (int64_t)used + (int64_t)vf->paid;

	if (!is_limited(vf) || left >= (int64_t)slice)
		return slice;
	return left > 0 ? (vgpu_nsec)left : 0;
}

static vgpu_nsec earlier(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

/*
 * Returns the first instant before UNTIL at which a VF whose guarantee is held back by its bucket,
 * at or below entry AT of the heap, can use it again with an earlier deadline than DEADLINE; UNTIL
 * if there is none.
 */
static vgpu_nsec let_go(const struct qos *q, uint32_t at, vgpu_nsec deadline, vgpu_nsec until)
{
	const struct heap_entry *e = &q->held.entries[at];
	uint32_t i;

	if (at >= q->held.n || e->key >= until)
		return until;
	if (e->key + q->s.cbs[e->vf].period < deadline)
		return e->key;
	for (i = 1; i <= 4; i++)
		until = let_go(q, 4 * at + i, deadline, until);
	return until;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct qos *q = state;
	vgpu_nsec next;

	if (servers_outgrown(&q->s, false))
		changed(q);
	advance(q, now);
	q->started = 0;
	out->vf = heap_first(&q->s.ready);
	q->served = out->vf != VGPU_NO_VF;
	next = servers_next_budget(&q->s);
	if (q->served) {
		next = let_go(q, 0, q->s.cbs[out->vf].deadline, VGPU_NEVER);
		servers_take(&q->s, out->vf, (vgpu_nsec)q->params[P_LATE] * VGPU_USEC, next, now,
			     out);
		/* A VF that runs by its guarantee does not queue for excess. */
		eevdf_dequeue(&q->e, out->vf);
		heap_remove(&q->throttled, out->vf);
		q->current = out->vf;
		return;
	}
	out->vf = eevdf_first(&q->e);
	q->current = out->vf;
	if (out->vf == VGPU_NO_VF) {
		out->park_until =
			q->throttled.n ? earlier(next, q->throttled.entries[0].key) : next;
		servers_park(&q->s, out->park_until);
		return;
	}
	servers_dequeue(&q->s, out->vf);
	next = let_go(q, 0, VGPU_NEVER, next);
	out->slice = end_by(q, eevdf_take(&q->e, out->vf), now, next);
	out->slice = within_limit(&q->own[out->vf], 0, out->slice);
	servers_turn_begins(&q->s, out->slice, now);
}

static void run(void *state, uint32_t index, vgpu_nsec now)
{
	struct qos *q = state;

	(void)index;
	q->started = now;
	q->settled = 0;
	q->counted = 0;
	servers_turn_runs(&q->s, now);
	if (!q->served)
		eevdf_run(&q->e, now);
}

static void drained(void *state, uint32_t index, vgpu_nsec now)
{
	struct qos *q = state;

	eevdf_drained(&q->e, index, now);
}

/* Charges the VF that runs by its guarantee to that until END, and to its share of the excess from
 * then on. */
static void settle_guarantee(struct qos *q, uint32_t index, vgpu_nsec end)
{
	struct vgpu_usage part = {.vf = index, .reason = VGPU_END_SLICE, .end = end};

	q->settled = end - q->started;
	part.used = part.granted = part.charge = q->settled;
	servers_charge(&q->s, &part, q->settled);
	servers_dequeue(&q->s, index);
	q->served = false;
	eevdf_take(&q->e, index);
	eevdf_run(&q->e, end);
}

/* Extends a VF whose guarantee is used up by its share of the excess, if it would be picked
 * next. */
static vgpu_nsec extend(void *state, uint32_t index, vgpu_nsec end)
{
	struct qos *q = state;
	struct vf vf = q->own[index];
	vgpu_nsec next, more;

	if (q->served && q->s.turn.piece) {
		next = let_go(q, 0, q->s.cbs[index].deadline, VGPU_NEVER);
		more = servers_go_on(&q->s, index, end - q->started, end, next);
		if (more)
			return more;
	}
	/* When a VF gets a budget or tokens, the policy must decide again. */
	next = earlier(servers_next_budget(&q->s),
		       q->throttled.n ? q->throttled.entries[0].key : VGPU_NEVER);
	if (heap_first(&q->s.ready) != VGPU_NO_VF || next <= end + q->s.facts->switch_ns)
		return 0;
	if (q->served) {
		if (!q->vfs[index].competes)
			return 0;
		eevdf_queue(&q->e, index);
		if (eevdf_first(&q->e) != index) {
			eevdf_dequeue(&q->e, index);
			return 0;
		}
		settle_guarantee(q, index, end);
		more = eevdf_length(&q->e, index);
	} else {
		more = eevdf_extend(&q->e, q->throttled.n == 0, end);
	}
	/* END may be ahead of the clock, and the VF may yet stop before it. */
	fill(&vf, end);
	more = within_limit(&vf, end - q->started, more ? end_by(q, more, end, next) : 0);
	q->counted = more ? end : 0;
	q->counted_ppm = vf.max_ppm;
	servers_turn_begins(&q->s, more, end);
	servers_turn_runs(&q->s, end);
	return more;
}

/* Notes what was charged beyond a grant that counted tokens of the time up to its end, if the VF
 * has stopped before. */
static void note_early(struct qos *q, const struct vgpu_usage *usage)
{
	vgpu_nsec ahead = q->counted > usage->end ? q->counted - usage->end : 0;
	int64_t beyond = (int64_t)usage->charge - (int64_t)usage->granted +
			 (int64_t)(ahead * q->counted_ppm / MILLION) + 1;
	struct vf *vf = &q->own[usage->vf];

	if (ahead && is_limited(vf) && beyond > vf->early)
		vf->early = beyond;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct qos *q = state;
	struct vf *vf = &q->own[usage->vf];
	int64_t charge = (int64_t)usage->charge - (int64_t)q->settled;

	q->now = usage->end;
	q->current = VGPU_NO_VF;
	fill(vf, usage->end);
	note_early(q, usage);
	vf->tokens -= (int64_t)usage->charge - (int64_t)vf->paid;
	vf->paid = 0;
	if (q->served) {
		eevdf_learn(&q->e, &q->vfs[usage->vf], usage);
		eevdf_ends(&q->e, usage);
		servers_charge(&q->s, usage, servers_service(usage));
		if (q->vfs[usage->vf].competes)
			eevdf_queue(&q->e, usage->vf);
	} else {
		q->s.worst = usage->overrun > q->s.worst ? usage->overrun : q->s.worst;
		/* A VF without work begins its next period only when it wakes. */
		if (usage->reason != VGPU_END_YIELD)
			charge -= (int64_t)servers_had(&q->s, usage->vf, usage->start, usage->end);
		eevdf_account(&q->e, usage, charge);
		servers_turn_ends(&q->s);
		servers_queue(&q->s, usage->vf);
	}
	place(q, usage->vf, usage->end);
}

/*
 * Returns the sum of three debts, as a lag in ns: what the VF has had ahead of its guarantee, what
 * it owes in excess, and what its bucket lacks.
 */
static int64_t export_lag(void *state, uint32_t index)
{
	struct qos *q = state;
	struct vf vf = q->own[index];
	int64_t lag = eevdf_lag(&q->e, index) + servers_export_lag(&q->s, index, q->now);

	fill(&vf, q->now);
	return is_limited(&vf) && vf.tokens < 0 && vf.tokens < lag ? vf.tokens : lag;
}

/*
 * The VF pays a debt from its guarantee first, up to a budget, and then from its excess. A change
 * from this policy to itself brings neither a new budget nor a fuller bucket.
 */
static void import_lag(void *state, uint32_t index, int64_t lag)
{
	struct qos *q = state;
	struct vf *vf = &q->own[index];
	int64_t budget = (int64_t)q->s.cbs[index].budget;
	int64_t ahead = lag > 0 ? 0 : lag > -budget ? lag : -budget;

	servers_import_lag(&q->s, index, ahead);
	eevdf_import_lag(&q->e, index, lag - ahead);
	if (!is_limited(vf))
		return;
	/* The bucket is not filled for the time until the change either. */
	vf->tokens = lag > 0 ? 0 : lag > -EEVDF_CARRIED ? lag : -EEVDF_CARRIED;
	vf->filled = VGPU_NEVER;
}

/* Sets the share in millionths: the VF's guarantee, and its part of what all guarantees leave. */
static void share(void *state, uint32_t index, uint64_t *numerator, uint64_t *denominator)
{
	struct qos *q = state;
	uint64_t promised = 0, own = 0, weights = 0, ppm;
	uint32_t i;

	for (i = 0; i < q->s.facts->max_vfs; i++) {
		if (!q->vfs[i].admitted)
			continue;
		ppm = q->s.cbs[i].budget * MILLION / (q->s.cbs[i].period + !q->s.cbs[i].period);
		promised += ppm;
		own = i == index ? ppm : own;
		weights += q->vfs[i].t.weight;
	}
	*numerator = own + (MILLION > promised ? MILLION - promised : 0) * q->vfs[index].t.weight /
				   (weights ? weights : 1);
	if (*numerator > q->own[index].max_ppm)
		*numerator = q->own[index].max_ppm;
	*numerator += *numerator == 0;
	*denominator = MILLION;
}

/*
 * Lag, of VFs without guarantee and limit: as eevdf_bound, with what guarantees put in between.
 * Each guarantee is served in one piece of up to a budget Q, at any instant of its period, and
 * shifts the excess of this VF by its share f: |lag| <= eevdf + worst + f * sum (2 Q + worst), f is
 * the share beside the lightest other VF alone, because all heavier VFs may be without work.
 *
 * Limit: while the bucket owes no more than one budget, the VF still runs for its guarantee: for a
 * budget, and its overrun.
 */
static void bound(void *state, uint32_t index, struct vgpu_bound *out)
{
	struct qos *q = state;
	const struct cbs *c = &q->s.cbs[index];
	const struct eevdf_vf *excess = &q->vfs[index];
	const struct vf *vf = &q->own[index];
	uint64_t lumps = 0, lightest = 0, most = q->e.slice;
	uint32_t i;

	for (i = 0; i < q->s.facts->max_vfs; i++) {
		if (!q->vfs[i].admitted)
			continue;
		if (i != index && (!lightest || q->vfs[i].t.weight < lightest))
			lightest = q->vfs[i].t.weight;
		lumps += q->s.cbs[i].budget ? 2 * q->s.cbs[i].budget + q->s.worst : 0;
		most = q->s.cbs[i].budget > most ? q->s.cbs[i].budget : most;
	}
	eevdf_bound(&q->e, index, 0, out);
	out->max_lag += 2 * c->budget + q->s.worst +
			lumps * excess->t.weight / (excess->t.weight + lightest);
	/* With a guarantee or a limit, the share depends on what others use. */
	if (c->budget || is_limited(vf))
		out->max_lag = VGPU_NEVER;
	servers_bound(&q->s, index, most, out);
	/* The budget states what a VF is promised. No wait is stated, because a VF that owes many
	 * budgets waits for as many periods. */
	out->max_wait = VGPU_NEVER;
	if (is_limited(vf)) {
		out->limit_ppm = vf->max_ppm;
		out->burst = (vgpu_nsec)vf->depth + 2 * c->budget +
			     (vgpu_nsec)(vf->early > excess->worst ? vf->early : excess->worst);
	}
}

static const char *warning(void *state)
{
	struct qos *q = state;
	struct admission a = rules(q, q->params);

	return promises_warning(&q->promises, &q->s, &a);
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "qos",
	.help = "a guarantee, a limit with burst, and a weight for the rest",
	.promises = VGPU_PROMISE_PROPORTIONAL | VGPU_PROMISE_GUARANTEE,
	.params = params,
	.vf_params = vf_params,
	.memory = memory,
	.attach = attach,
	.set_params = set_params,
	.admit = admit,
	.set_vf = set_vf,
	.remove = remove_vf,
	.online = online,
	.offline = offline,
	.wake = wake,
	.sleep = sleep_vf,
	.pick = pick,
	.run = run,
	.account = account,
	.export_lag = export_lag,
	.import_lag = import_lag,
	.share = share,
	.bound = bound,
	.check_params = check_params,
	.warning = warning,
	.extend = extend,
	.drained = drained,
};
