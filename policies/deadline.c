/* SPDX-License-Identifier: MIT */
/*
 * deadline: guarantees a budget in each period, by EDF with hard constant-bandwidth servers. A set
 * of budgets is admitted only if it can be kept, with world switches, blocking and late stops
 * included. VFs without a budget take turns in the time that servers leave; a VF that exceeds its
 * turn gets less in later ones.
 *
 * With reclaim=grub a server is charged at the rate at which servers are active (GRUB; Lipari and
 * Baruah, ECRTS 2000; Linux: sched-deadline): the bandwidth of sleeping servers goes to those with
 * work, in EDF order. No deadline is at risk, because the time that admission has reserved for
 * blocking and overruns is not given away.
 */
#include "promises.h"
#include "set.h"

enum { P_CAP, P_RECLAIM, P_LATE, P_COVER, P_SLICE, P_ADMISSION };
enum { V_BUDGET, V_PERIOD };
enum { COVER_NOTHING, COVER_GRACE, COVER_WINDOWS };

struct deadline {
	struct servers s;
	struct promises promises;
	uint64_t limit_ppm; /* most of the engine that servers may use, in millionths; 0: nothing is
			     * reclaimed */
	vgpu_nsec slack;    /* the least slack (admission_cut()) of a server whose pieces count, or
			     * VGPU_NEVER */
	bool whole;	    /* for the assumed switch time, jobs need not run in pieces */
	int64_t params[P_ADMISSION + 1];
	vgpu_nsec slice, now;
	uint32_t current;
	bool served;	   /* the current VF is charged to its budget */
	vgpu_nsec settled; /* the current VF's service is charged up to this instant; 0: no VF
			    * runs */
	vgpu_nsec charged; /* what the current VF was charged up to `settled`, ns */
	/* The background: VFs with work and no budget, the VF whose turn it is, and what is left of
	 * its turn, ns. A turn that a budget interrupts continues later: if periods and turns were
	 * in step, the same VF would always lose. */
	struct set waiting;
	uint32_t background;
	int64_t turn_left;
	bool last;	 /* its turn ends with this dispatch */
	uint64_t rounds; /* number of rounds; in each, every VF of the background had a turn, or
			  * gave it up to pay what it owes */
	uint64_t active_ppm;
	struct heap leaving; /* servers that sleep but are active until their time of zero lag, by
			      * that time */
	struct vf {
		bool awake, active;
		uint64_t ppm;	/* its budget with switches, in millionths of its period */
		int64_t owes;	/* what it had in the background beyond its turns, ns */
		uint64_t since; /* asleep: `rounds` when it left the background */
	} vfs[];
};

static const char *const reclaims[] = {"off", "grub", NULL};
static const char *const covers[] = {"nothing", "grace", "windows", NULL};

static const struct vgpu_param params[] = {
	[P_CAP] = {"cap_pct", "%",
		   "largest part of the engine's time that all budgets may take together",
		   VGPU_PARAM_INT, 1, 100, 90, NULL},
	[P_RECLAIM] = {"reclaim", "",
		       "grub: VFs with work get the unused budgets of VFs that sleep",
		       VGPU_PARAM_CHOICE, 0, 1, 0, reclaims},
	[P_LATE] = {"late_us", "us",
		    "how late a VF may stop before the budgets of other VFs are at risk",
		    VGPU_PARAM_INT, 0, 100000, 500, NULL},
	[P_COVER] = {"cover", "",
		     "grace: budgets also hold across a hang; windows: also across a window",
		     VGPU_PARAM_CHOICE, 0, 2, COVER_NOTHING, covers},
	[P_SLICE] = {"slice_us", "us", "length of a turn of a VF without a budget", VGPU_PARAM_INT,
		     500, 500000, 4000, NULL},
	[P_ADMISSION] = ADMISSION_PARAM,
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {
	[V_BUDGET] =
		{"budget_us", "us",
		 "guaranteed engine time in each period; 0: none, only time that budgets leave",
		 VGPU_PARAM_INT, 0, 10000000, 0, NULL},
	[V_PERIOD] = {"period_us", "us", "length of a period; the budget is served by its end",
		      VGPU_PARAM_INT, 5000, 10000000, 33000, NULL},
	{.name = NULL},
};

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct deadline) + max_vfs * sizeof(struct vf) + servers_memory(max_vfs) +
	       promises_memory(max_vfs) + heap_memory(max_vfs) + set_memory(max_vfs);
}

static vgpu_nsec late(const int64_t *values)
{
	return (vgpu_nsec)values[P_LATE] * VGPU_USEC;
}

/* Returns the rules of admission under the given parameters. */
static struct admission rules(const struct deadline *d, const int64_t *values)
{
	const struct vgpu_facts *f = d->s.facts;
	vgpu_nsec cover = 0;
	struct admission a;

	if (values[P_COVER] >= COVER_GRACE)
		cover += f->grace_ns;
	if (values[P_COVER] >= COVER_WINDOWS)
		cover += f->window_ns + f->switch_high_ns; /* the switch back to the VF that the
							    * window interrupts */
	a = promises_rules(&d->s, values[P_ADMISSION], values[P_CAP], late(values), cover);
	a.longer = values[P_RECLAIM] != 0;
	return a;
}

static bool check_params(void *state, const int64_t *values, vgpu_nsec now, const char **why)
{
	struct deadline *d = state;
	struct admission then = rules(d, values), at_present = rules(d, d->params);

	(void)now;
	return promises_may_change(&d->promises, &d->s, &at_present, &then, why);
}

/* Computes what depends on budgets and rules. Must be called when they have changed. */
static void changed(struct deadline *d)
{
	struct admission a = rules(d, d->params);
	struct admission whole = a;
	uint64_t reserve;
	uint32_t n = promises_all(&d->promises, &d->s);

	whole.pieces = false;
	d->whole = a.longer && admission_by_demand(&whole, d->promises.sets, n);
	if (d->whole)
		a = whole;
	d->slack = promises_changed(&d->promises, &d->s, &a);
	n = promises_all(&d->promises, &d->s);
	reserve = admission_reserve(&a, d->promises.sets, n);
	d->limit_ppm = d->params[P_RECLAIM] && reserve < 1000000 ? 1000000 - reserve : 0;
	d->limit_ppm = d->limit_ppm < a.cap_ppm ? d->limit_ppm : a.cap_ppm;
}

/*
 * Returns what a server is charged for SERVICE; both in ns. Reclaimed time makes a job longer:
 * where jobs run in pieces, x more ns bring up to x / slack more interruptions, each with a switch
 * back. So a server is given only the part of the reclaimed time that leaves room for those
 * switches.
 */
static vgpu_nsec reclaimed(const struct deadline *d, uint32_t index, vgpu_nsec service)
{
	uint64_t rate = d->vfs[index].ppm;
	vgpu_nsec given;

	rate = rate > d->active_ppm ? rate : d->active_ppm;
	if (rate >= d->limit_ppm)
		return service;
	given = (vgpu_nsec)((unsigned __int128)service * (d->limit_ppm - rate) / d->limit_ppm);
	if (d->slack != VGPU_NEVER)
		given = (vgpu_nsec)((unsigned __int128)given * d->slack /
				    (d->slack + d->s.reckoned));
	return service - given;
}

/* Charges the current server, at the present rate, for what it has run by NOW. Must be called
 * before the rate changes. */
static void settle(struct deadline *d, vgpu_nsec now)
{
	if (d->settled == 0 || now <= d->settled)
		return;
	d->charged += reclaimed(d, d->current, now - d->settled);
	d->settled = now;
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct deadline *d = state;
	uint32_t i;

	settle(d, now);
	for (i = 0; i <= P_ADMISSION; i++)
		d->params[i] = values[i];
	d->slice = (vgpu_nsec)values[P_SLICE] * VGPU_USEC;
	changed(d);
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct deadline *d = state;
	void *rest = servers_init(&d->s, facts, &d->vfs[facts->max_vfs]);

	rest = promises_init(&d->promises, rest, facts->max_vfs);
	rest = heap_init(&d->leaving, rest, facts->max_vfs);
	set_init(&d->waiting, rest, facts->max_vfs);
	d->current = VGPU_NO_VF;
	set_params(state, values, 0);
}

/* Marks a server as active: while it has work, and until its time of zero lag when it sleeps, its
 * bandwidth is in use. Not inlined, because advance() rarely needs it. */
static __attribute__((noinline)) void set_active(struct deadline *d, uint32_t index, bool active)
{
	struct vf *vf = &d->vfs[index];

	heap_remove(&d->leaving, index);
	if (vf->active == active)
		return;
	settle(d, d->now);
	vf->active = active;
	d->active_ppm += active ? vf->ppm : -vf->ppm;
}

static void advance(struct deadline *d, vgpu_nsec now)
{
	d->now = now;
	servers_advance(&d->s, now);
	while (d->leaving.n && d->leaving.entries[0].key <= now)
		set_active(d, d->leaving.entries[0].vf, false);
}

/* Reduces what a VF owes by the turns that it missed since it left the background. */
static void pay_off(const struct deadline *d, struct vf *vf)
{
	uint64_t rounds = d->rounds - vf->since;
	bool all = rounds > (uint64_t)vf->owes / d->slice;

	vf->owes = all ? 0 : vf->owes - (int64_t)(rounds * d->slice);
}

/* Counts what a VF had BEYOND its turn while it was alone, ns, as rounds: it took nothing from
 * others, and sleeping VFs pay off debts as if they had had turns. */
static void had_alone(struct deadline *d, int64_t beyond)
{
	d->rounds += beyond > 0 ? (uint64_t)beyond / d->slice : 0;
}

/* Adds a VF to the background. If the VF whose turn it is was alone, its turn begins now. */
static void join(struct deadline *d, uint32_t index)
{
	struct vf *vf = &d->vfs[index];
	int64_t ran;

	if (d->waiting.n == 1 && d->current == d->background && !d->served &&
	    set_has(&d->waiting, d->current) && d->now > d->s.turn.start) {
		ran = (int64_t)(d->now - d->s.turn.start);
		had_alone(d, ran - d->turn_left);
		d->turn_left = ran + (int64_t)d->slice;
		d->last = true;
	}
	if (vf->owes)
		pay_off(d, vf);
	set_add(&d->waiting, index);
}

static void leave(struct deadline *d, uint32_t index)
{
	struct vf *vf = &d->vfs[index];

	if (index == d->background && d->turn_left < 0) {
		vf->owes -= d->turn_left;
		d->turn_left = 0;
	}
	vf->owes = vf->owes > 0 ? vf->owes : 0;
	vf->since = d->rounds;
	set_remove(&d->waiting, index);
}

/* Puts a VF that has work and no budget into the background. */
static void place(struct deadline *d, uint32_t index)
{
	bool waits = d->vfs[index].awake && d->s.cbs[index].budget == 0;

	if (waits == set_has(&d->waiting, index))
		return;
	if (waits)
		join(d, index);
	else
		leave(d, index);
}

/* Sets a server's budget and period, ns, which must have been admitted. */
static void set_server(struct deadline *d, uint32_t index, vgpu_nsec budget, vgpu_nsec period,
		       vgpu_nsec now)
{
	vgpu_nsec switches = 2 * d->s.facts->switch_high_ns;
	bool active = d->vfs[index].active || d->vfs[index].awake;
	bool is_new = d->s.cbs[index].budget || budget;

	d->now = now;
	settle(d, now);
	if (d->current == index) { /* what it has run so far is charged to the old budget */
		d->s.cbs[index].left -= (int64_t)d->charged;
		d->charged = 0;
	}
	set_active(d, index, false);
	d->vfs[index].ppm = budget ? admission_ppm(budget + switches, period) : 0;
	servers_set(&d->s, index, budget, period, d->current == index, now);
	set_active(d, index, active && budget);
	place(d, index);
	if (is_new)
		changed(d);
}

static bool set_vf(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		   const char **why)
{
	struct deadline *d = state;
	vgpu_nsec budget = (vgpu_nsec)values[V_BUDGET] * VGPU_USEC;
	vgpu_nsec period = (vgpu_nsec)values[V_PERIOD] * VGPU_USEC;
	struct admission a = rules(d, d->params);

	if (budget &&
	    !promises_admit(&d->promises, &d->s, &a, index, budget, period, PROMISES_BUDGET, why))
		return false;
	set_server(d, index, budget, period, now);
	return true;
}

static void online(void *state, uint32_t index, vgpu_nsec now)
{
	struct deadline *d = state;

	servers_online(&d->s, index, now);
}

static void offline(void *state, uint32_t index, vgpu_nsec now)
{
	(void)state;
	(void)index;
	(void)now;
}

static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct deadline *d = state;

	advance(d, now);
	d->vfs[index].awake = true;
	place(d, index);
	servers_wake(&d->s, index, now);
	if (d->s.cbs[index].budget)
		set_active(d, index, true);
	if (d->current == VGPU_NO_VF)
		return true;
	return servers_preempts(&d->s, index,
				d->served ? d->s.cbs[d->current].deadline : VGPU_NEVER);
}

/* Returns the time of zero lag of a server that sleeps: when it has been served exactly its
 * bandwidth. */
static vgpu_nsec zero_lag(const struct cbs *c)
{
	vgpu_nsec off = c->left > 0 ? (vgpu_nsec)c->left : (vgpu_nsec)-c->left;

	off = (vgpu_nsec)((unsigned __int128)off * c->period / c->budget);
	if (c->left < 0)
		return c->deadline + off;
	return c->deadline > off ? c->deadline - off : 0;
}

static void sleep_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct deadline *d = state;
	vgpu_nsec until;

	d->now = now;
	d->vfs[index].awake = false;
	place(d, index);
	servers_sleep(&d->s, index);
	if (!d->vfs[index].active)
		return;
	until = zero_lag(&d->s.cbs[index]);
	if (until > now)
		heap_insert(&d->leaving, index, until);
	else
		set_active(d, index, false);
}

static void remove_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct deadline *d = state;

	d->now = now;
	if (d->vfs[index].awake)
		sleep_vf(state, index, now);
	set_active(d, index, false);
	set_server(d, index, 0, d->s.cbs[index].period, now);
}

/* Skips the rounds in which every VF of the background would give up its turn to pay what it
 * owes. */
static void pass_rounds(struct deadline *d)
{
	int64_t slice = (int64_t)d->slice, rounds = INT64_MAX, owed;
	uint32_t i, vf = d->background;

	for (i = 0; i < d->waiting.n && rounds > 0; i++) {
		vf = set_next(&d->waiting, vf);
		owed = d->vfs[vf].owes / slice;
		rounds = owed < rounds ? owed : rounds;
	}
	if (rounds <= 0)
		return;
	for (i = 0; i < d->waiting.n; i++) {
		vf = set_next(&d->waiting, vf);
		d->vfs[vf].owes -= rounds * slice;
	}
	d->rounds += (uint64_t)rounds;
}

/* Moves on to the next VF of the background, and returns it. */
static struct vf *next_vf(struct deadline *d)
{
	uint32_t next = set_next(&d->waiting, d->background);

	d->rounds += next <= d->background;
	d->background = next;
	return &d->vfs[next];
}

/* Begins the next turn: that of the next VF that does not owe a whole turn. A VF that is alone owes
 * nothing. */
static void next_turn(struct deadline *d)
{
	int64_t slice = (int64_t)d->slice;
	struct vf *vf = &d->vfs[d->background];

	if (set_has(&d->waiting, d->background))
		vf->owes -= d->turn_left;
	vf = next_vf(d);
	if (d->waiting.n == 1)
		vf->owes = 0;
	if (vf->owes >= slice)
		pass_rounds(d);
	while (vf->owes >= slice) {
		vf->owes -= slice;
		vf = next_vf(d);
	}
	d->turn_left = slice;
	if (vf->owes < 0) {
		d->turn_left -= vf->owes;
		vf->owes = 0;
	}
}

static uint32_t next_in_background(struct deadline *d)
{
	bool over = d->waiting.n < 2 || d->turn_left < (int64_t)d->s.facts->min_slice_ns;

	if (d->waiting.n && (over || !set_has(&d->waiting, d->background)))
		next_turn(d);
	return d->waiting.n ? d->background : VGPU_NO_VF;
}

/*
 * Charges a turn in the background. What a VF had beyond its turn delays its next one, unless it is
 * alone. A VF that runs out of work gives up the rest of its turn. One that stops sooner than it
 * usually does keeps the rest for its next turn, but at most a turn, because another dispatch would
 * cost all VFs a switch.
 */
static void charge_background(struct deadline *d, const struct vgpu_usage *usage)
{
	int64_t charge = (int64_t)usage->charge, left = d->turn_left - charge;
	struct vf *vf = &d->vfs[usage->vf];

	if (usage->vf != d->background) {
		vf->owes += charge;
		return;
	}
	if (left > 0 && (d->last || usage->reason == VGPU_END_YIELD)) {
		left = 0;
	} else if (left > 0 && left <= (int64_t)d->slice && usage->reason == VGPU_END_SLICE &&
		   (int64_t)usage->granted - charge >= left) {
		vf->owes -= left;
		left = 0;
	} else if (left < 0 && d->waiting.n == 1 && set_has(&d->waiting, usage->vf)) {
		had_alone(d, -left);
		left = 0;
	}
	d->turn_left = left;
	d->last = false;
}

/* Picks a turn in the time that servers leave. A turn that the next budget of a server cuts short
 * must be long enough to be worth a switch. */
static void pick_background(struct deadline *d, struct vgpu_pick *out, vgpu_nsec now)
{
	vgpu_nsec switch_ns = d->s.facts->switch_ns, next = servers_next_budget(&d->s);

	out->park_until = next;
	if (next != VGPU_NEVER && next <= now + switch_ns + d->s.facts->min_slice_ns)
		return;
	out->vf = next_in_background(d);
	if (out->vf == VGPU_NO_VF)
		return;
	out->slice = (vgpu_nsec)d->turn_left;
	if (next != VGPU_NEVER && next - now < out->slice + switch_ns)
		out->slice = next - now - switch_ns;
	servers_turn_begins(&d->s, out->slice, now);
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct deadline *d = state;
	uint32_t first;

	if (servers_outgrown(&d->s, d->whole))
		changed(d);
	advance(d, now);
	first = heap_first(&d->s.ready);
	d->served = first != VGPU_NO_VF;
	if (d->served)
		servers_take(&d->s, first, late(d->params), VGPU_NEVER, now, out);
	else
		pick_background(d, out, now);
	if (out->vf == VGPU_NO_VF)
		servers_park(&d->s, out->park_until);
	d->current = out->vf;
}

static void run(void *state, uint32_t index, vgpu_nsec now)
{
	struct deadline *d = state;

	(void)index;
	d->settled = d->served ? now : 0;
	servers_turn_runs(&d->s, now);
}

static vgpu_nsec extend_background(struct deadline *d, vgpu_nsec end)
{
	int64_t rest = d->turn_left - (int64_t)(end - d->s.turn.start);
	vgpu_nsec next = servers_next_budget(&d->s), more;

	if (d->waiting.n < 2)
		rest = (int64_t)d->slice;
	else if (d->last)
		rest = 0;
	if (d->s.ready.n || next <= end || rest < (int64_t)d->s.facts->min_slice_ns)
		return 0;
	more = (vgpu_nsec)rest < next - end ? (vgpu_nsec)rest : next - end;
	d->s.turn.length += more;
	d->s.turn.end = end + more;
	return more;
}

static vgpu_nsec extend(void *state, uint32_t index, vgpu_nsec end)
{
	struct deadline *d = state;

	d->s.turn.end = end;
	d->s.turn.length = end - d->s.turn.start;
	if (!d->served)
		return extend_background(d, end);
	return servers_extend(&d->s, index, d->charged + reclaimed(d, index, end - d->settled),
			      end);
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct deadline *d = state;
	vgpu_nsec charge = d->charged, had = d->settled ? d->settled - usage->start : 0, rest;

	d->current = VGPU_NO_VF;
	d->charged = d->settled = 0;
	if (!d->served || d->s.cbs[usage->vf].budget == 0) {
		charge_background(d, usage);
		if (usage->overrun > d->s.worst)
			d->s.worst = usage->overrun;
		servers_turn_ends(&d->s);
		servers_queue(&d->s, usage->vf);
		return;
	}
	rest = servers_service(usage) > had ? servers_service(usage) - had : 0;
	servers_charge(&d->s, usage, charge + reclaimed(d, usage->vf, rest));
	advance(d, usage->end);
}

static int64_t export_lag(void *state, uint32_t index)
{
	struct deadline *d = state;

	return servers_export_lag(&d->s, index, d->now);
}

static void import_lag(void *state, uint32_t index, int64_t lag)
{
	struct deadline *d = state;

	servers_import_lag(&d->s, index, lag);
}

static void share(void *state, uint32_t index, uint64_t *numerator, uint64_t *denominator)
{
	struct deadline *d = state;
	const struct cbs *c = &d->s.cbs[index];

	*numerator = c->budget ? c->budget * 1000000 / c->period : 0;
	*numerator += *numerator == 0;
	*denominator = 1000000;
}

/* Writes what a VF is promised: servers get their budgets, VFs of the background nothing. A turn of
 * the background is a slice, and at most another slice that its VF did not use of the turn
 * before. */
static void bound(void *state, uint32_t index, struct vgpu_bound *out)
{
	struct deadline *d = state;
	vgpu_nsec longest = 2 * d->slice;
	uint32_t i;

	out->max_lag = VGPU_NEVER;
	out->max_wait = VGPU_NEVER;
	for (i = 0; i < d->s.facts->max_vfs; i++)
		longest = d->s.cbs[i].budget > longest ? d->s.cbs[i].budget : longest;
	servers_bound(&d->s, index, longest, out);
}

static const char *warning(void *state)
{
	struct deadline *d = state;
	struct admission a = rules(d, d->params);

	return promises_warning(&d->promises, &d->s, &a);
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "deadline",
	.help = "a guaranteed budget in each period: EDF, admission counts switches",
	.promises = VGPU_PROMISE_GUARANTEE,
	.params = params,
	.vf_params = vf_params,
	.memory = memory,
	.attach = attach,
	.set_params = set_params,
	.admit = set_vf,
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
};
