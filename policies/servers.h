/* SPDX-License-Identifier: MIT */
/*
 * Hard constant-bandwidth servers under EDF (Abeni and Buttazzo, RTSS '98; Linux: sched-deadline):
 * the engine behind `deadline` and behind the guarantees of `qos`. A server owns a budget in each
 * of its periods. While it has budget and work it competes by its deadline; without budget it waits
 * for the end of its period, so that a server that wants more than its budget cannot delay others.
 * Its overrun is taken out of its next budget.
 *
 * World switches: admission counts one for each period of each server, and one for each preemption
 * of a server by another. All other switches a server causes itself, because it slept and woke
 * again or stopped before its turn was over; its budget pays for those, and for the switch of a
 * server that it may displace.
 *
 * A server that wakes with budget left in the middle of its period begins a new period with what is
 * left. Its deadline is never less than a period after a wake: so no window of time holds more of
 * its budgets than admission has counted.
 */
#pragma once

#include "heap.h"
#include "vgpu/policy.h"

struct cbs {
	bool awake;
	bool unseen;	/* its next budget becomes due in a turn that was planned without it */
	bool ran;	/* it has run in this period */
	bool displaced; /* another server interrupted it, and pays for the switch back */
	bool lent;	/* its debt in this period was imported from another policy */
	bool repays;	/* its debt is `lent` and it has had no work since: its bandwidth pays the
			 * debt off */
	vgpu_nsec budget, period; /* budget 0: no server */
	vgpu_nsec piece; /* how long it runs before another server may interrupt it, ns; 0: the
			    least run */
	int64_t left;
	int64_t cost; /* what its next switch takes out of its budget, ns */
	vgpu_nsec released, deadline;
	vgpu_nsec early;   /* how much of this period's budget it has lost by stopping before the
			    * ends of turns, ns */
	vgpu_nsec lost;	   /* the most that it has lost of a budget by stopping early or late, ns */
	vgpu_nsec deepest; /* its largest debt so far, ns */
};

/* The turn of the VF that is dispatched. */
struct servers_turn {
	vgpu_nsec start, length;
	vgpu_nsec end; /* planned; 0: no VF is dispatched */
	bool cut;      /* it ends because another server will be due, or may be */
	bool piece;    /* no other server may interrupt it yet */
};

struct servers {
	const struct vgpu_facts *facts;
	struct cbs *cbs;       /* by VF */
	struct heap ready;     /* servers with budget and work, by deadline */
	struct heap exhausted; /* servers with work and without budget, by the end of the period */
	struct servers_turn turn;
	bool accrue; /* bandwidth accrues to servers that sleep: see admission.h */
	bool cut;    /* jobs run in pieces, computed for a switch of `reckoned` */
	vgpu_nsec reckoned;
	vgpu_nsec worst;  /* largest overrun so far, ns */
	vgpu_nsec parked; /* no VF is picked until then, because the next budget is due then; 0: not
			   * parked */
	vgpu_nsec late;	  /* how late the end of parking was noticed at most, ns */
};

static inline size_t servers_memory(uint32_t max_vfs)
{
	return max_vfs * sizeof(struct cbs) + 2 * heap_memory(max_vfs);
}

/* Makes an empty set of servers. MEMORY, servers_memory() bytes, and FACTS are owned by the host
 * and must outlive S. Returns the first byte after MEMORY that is not used. */
static inline void *servers_init(struct servers *s, const struct vgpu_facts *facts, void *memory)
{
	s->facts = facts;
	s->cbs = memory;
	memory = heap_init(&s->ready, s->cbs + facts->max_vfs, facts->max_vfs);
	return heap_init(&s->exhausted, memory, facts->max_vfs);
}

/* Returns the largest rest of a budget that is not worth a switch, ns; such a rest is added to the
 * next budget. */
static inline int64_t servers_crumb(const struct servers *s)
{
	return (int64_t)(s->facts->min_slice_ns / 16);
}

static inline vgpu_nsec servers_least(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

static inline void servers_dequeue(struct servers *s, uint32_t index)
{
	heap_remove(&s->ready, index);
	heap_remove(&s->exhausted, index);
}

/* Returns what the server must pay for the switch to it, ns: 0 if admission has counted the switch,
 * or if another server, which has displaced it, pays. */
static inline int64_t servers_own_switch(const struct servers *s, const struct cbs *c)
{
	return c->ran && !c->displaced ? 2 * (int64_t)s->facts->switch_high_ns : 0;
}

/* Returns how much of a budget must be left for its server to go on, ns. A displaced server goes on
 * with any rest, because the other server has paid for the switch and the rest may be what its job
 * needs. */
static inline int64_t servers_enough(const struct servers *s, const struct cbs *c)
{
	return c->displaced ? 0 : servers_crumb(s) + c->cost;
}

/* Queues a server by its deadline, or by when its next budget is due. A budget that becomes due
 * during a turn that was planned without it counts as due when that turn ends, even if it ends
 * early. */
static inline void servers_queue(struct servers *s, uint32_t index)
{
	struct cbs *c = &s->cbs[index];

	if (!c->awake || c->budget == 0)
		return;
	c->cost = servers_own_switch(s, c);
	if (c->left > servers_enough(s, c)) {
		heap_insert(&s->ready, index, c->deadline);
		return;
	}
	c->unseen = c->deadline < s->turn.end;
	heap_insert(&s->exhausted, index, c->deadline);
}

static inline void servers_begin_period(struct cbs *c, vgpu_nsec released)
{
	c->released = released;
	c->deadline = released + c->period;
	c->ran = false;
	c->displaced = false;
	c->lent = false;
	c->early = 0;
}

/* Returns what is left after N more budgets, ns, at most LIMIT. A server that owes more than it
 * could ever pay keeps owing; nothing overflows. */
static inline int64_t servers_refill(const struct cbs *c, uint64_t n, int64_t limit)
{
	uint64_t needed = c->left < 0 ? (uint64_t)-c->left / c->budget + 1 : 0;

	/* LIMIT is less than two budgets. */
	if (n > needed + 1)
		return limit;
	return c->left + (int64_t)(n * c->budget) < limit ? c->left + (int64_t)(n * c->budget)
							  : limit;
}

/* Gives a server that has work its next budget, at the end of its period, less what it overran. */
static inline void servers_replenish(struct cbs *c, int64_t crumb, vgpu_nsec now)
{
	uint64_t n = (now - c->deadline) / c->period + 1;
	int64_t limit = (int64_t)c->budget + crumb;

	c->lost = c->early > c->lost ? c->early : c->lost;
	c->left = servers_refill(c, n, limit);
	servers_begin_period(c, c->deadline + (n - 1) * c->period);
}

/* Notes that no VF runs until UNTIL, when the next budget is due. */
static inline void servers_park(struct servers *s, vgpu_nsec until)
{
	s->parked = until;
}

static inline vgpu_nsec servers_next_budget(const struct servers *s)
{
	return s->exhausted.n ? s->exhausted.entries[0].key : VGPU_NEVER;
}

/* Replenishes the budgets that are due by NOW. Not inlined, because few calls find one. */
static __attribute__((noinline)) void servers_replenish_due(struct servers *s, vgpu_nsec now)
{
	uint32_t index;

	while ((index = heap_first(&s->exhausted)) != VGPU_NO_VF && s->cbs[index].deadline <= now) {
		heap_remove(&s->exhausted, index);
		servers_replenish(&s->cbs[index], servers_crumb(s), now);
		if (s->cbs[index].unseen)
			servers_begin_period(&s->cbs[index], now);
		s->cbs[index].unseen = false;
		servers_queue(s, index);
	}
}

/* Replenishes the budgets that are due by NOW, if any is. */
static inline void servers_advance(struct servers *s, vgpu_nsec now)
{
	if (s->parked && now > s->parked && now - s->parked > s->late)
		s->late = now - s->parked;
	s->parked = 0;
	if (servers_next_budget(s) <= now)
		servers_replenish_due(s, now);
}

/* Returns how far the server is ahead of its bandwidth at NOW, ns. */
static inline int64_t servers_ahead(const struct cbs *c, vgpu_nsec now)
{
	vgpu_nsec since = now > c->released ? now - c->released : 0;
	int64_t ahead = (int64_t)c->budget - c->left;

	if (ahead <= 0)
		return 0;
	/* Compare whole periods first: the product would overflow after years of sleep. */
	if (c->budget && since / c->period > (uint64_t)ahead / c->budget)
		return 0;
	if (c->budget)
		ahead -= (int64_t)((unsigned __int128)since * c->budget / c->period);
	return ahead > 0 ? ahead : 0;
}

/* Wakes a server after the end of its period: a new period begins with a whole budget, less what it
 * still owes. */
static inline void servers_wake_anew(struct cbs *c, vgpu_nsec now)
{
	uint64_t n = (now - c->deadline) / c->period + 1;
	int64_t budget = (int64_t)c->budget;

	c->left = c->left > 0 ? budget : servers_refill(c, n, budget);
	servers_begin_period(c, now);
}

/* Wakes a server. If it is ready afterwards it has a new deadline, a period from now, which may
 * preempt another server. If less budget is left than its own switch needs, it waits for the end of
 * its period. */
static inline void servers_wake(struct servers *s, uint32_t index, vgpu_nsec now)
{
	struct cbs *c = &s->cbs[index];
	bool lent = c->lent, repays = c->repays;
	int64_t left = (int64_t)c->budget - servers_ahead(c, now); /* with what has accrued */
	vgpu_nsec lost;

	c->awake = true;
	c->repays = false;
	c->displaced = false; /* its interrupted job has ended */
	if (c->budget == 0)
		return;
	c->cost = servers_own_switch(s, c);
	if (c->deadline <= now) {
		servers_wake_anew(c, now);
	} else if ((repays ? left : c->left) > servers_crumb(s) + c->cost) {
		c->left = repays || s->accrue ? left : c->left;
		c->released = now;
		c->deadline = now + c->period;
	}
	/* An overrun from before it slept is subtracted from the budget that it begins with. */
	if (!lent && !c->ran && c->left < (int64_t)c->budget) {
		lost = (vgpu_nsec)((int64_t)c->budget - c->left);
		c->lost = lost > c->lost ? lost : c->lost;
	}
	servers_queue(s, index);
}

/*
 * Returns whether INDEX, which has just woken, must preempt a server with the deadline AGAINST
 * (VGPU_NEVER: a VF of the background). Its deadline is new, so it preempts at most once for each
 * deadline, as admission assumes.
 */
static inline bool servers_preempts(const struct servers *s, uint32_t index, vgpu_nsec against)
{
	return heap_has(&s->ready, index) && s->cbs[index].deadline < against &&
	       (against == VGPU_NEVER || !s->turn.piece);
}

/* Takes a server without work out of the queues. If it is running, its account() follows. */
static inline void servers_sleep(struct servers *s, uint32_t index)
{
	struct cbs *c = &s->cbs[index];

	c->awake = false;
	servers_dequeue(s, index);
}

/*
 * Returns the first instant before UNTIL at which a server that waits for its budget, at or below
 * entry AT of the heap, will have an earlier deadline than DEADLINE; else UNTIL. Considers only
 * servers whose budgets are due by then.
 */
static inline vgpu_nsec servers_due(const struct servers *s, uint32_t at, vgpu_nsec deadline,
				    vgpu_nsec until)
{
	const struct heap_entry *e;
	uint32_t i;

	if (at >= s->exhausted.n)
		return until;
	e = &s->exhausted.entries[at];
	if (e->key >= until)
		return until;
	if (e->key + s->cbs[e->vf].period < deadline)
		return e->key;
	for (i = 1; i <= 4; i++)
		until = servers_due(s, 4 * at + i, deadline, until);
	return until;
}

/* Begins the turn of a VF that was picked at NOW for LENGTH ns. Must also be called for turns in
 * the background. servers_turn_runs() says when the VF begins to run. */
static inline void servers_turn_begins(struct servers *s, vgpu_nsec length, vgpu_nsec now)
{
	const struct vgpu_facts *f = s->facts;

	length = length < f->max_slice_ns ? length : f->max_slice_ns;
	s->turn = (struct servers_turn){.start = now,
					.length = length,
					.end = now + f->switch_ns + length};
}

static inline void servers_turn_runs(struct servers *s, vgpu_nsec now)
{
	s->turn.start = now;
	s->turn.end = now + s->turn.length;
}

/*
 * Gives the turn to INDEX, the first of the ready servers: for its budget, but at most until a
 * server that waits for its budget has an earlier deadline, and at most until MOST, if the caller
 * knows of another limit. INDEX may stop LATE after that.
 */
static inline void servers_take(struct servers *s, uint32_t index, vgpu_nsec late, vgpu_nsec most,
				vgpu_nsec now, struct vgpu_pick *out)
{
	const struct cbs *c = &s->cbs[index];
	vgpu_nsec slice = (vgpu_nsec)(c->left - c->cost), least = s->facts->min_slice_ns;
	vgpu_nsec start = now + s->facts->switch_ns, until, whole = slice;

	least = c->piece > least ? c->piece : least;
	until = servers_least(servers_due(s, 0, c->deadline, start + slice), most);
	if (until < start + slice)
		slice = until > start + least ? until - start : slice < least ? slice : least;
	/* Servers that wake during the piece are considered at its end. */
	if (c->piece)
		slice = servers_least(slice, c->piece);
	out->vf = index;
	out->slice = slice;
	out->late = late;
	out->flags = VGPU_PICK_REMAINDER;
	servers_dequeue(s, index);
	servers_turn_begins(s, slice, now);
	s->turn.cut = slice < whole;
	s->turn.piece = c->piece != 0;
}

/*
 * Returns for how much longer INDEX may run by the same budget, ns, at most until MOST, when the
 * first piece of its turn ends at END and it will have been charged CHARGE ns by then; 0: another
 * server must run.
 */
static inline vgpu_nsec servers_go_on(struct servers *s, uint32_t index, vgpu_nsec charge,
				      vgpu_nsec end, vgpu_nsec most)
{
	const struct cbs *c = &s->cbs[index];
	int64_t left = c->left - c->cost - (int64_t)charge;
	vgpu_nsec until, piece = s->turn.start + c->piece;

	/* Reclaimed time makes the budget last longer than the grant: the piece is not over. */
	if (left > 0 && end < piece && end < most) {
		until = servers_least(servers_least(end + (vgpu_nsec)left, piece), most);
		s->turn.cut = until < end + (vgpu_nsec)left;
		s->turn.length += until - s->turn.end;
		s->turn.end = until;
		return until - end;
	}
	s->turn.piece = false;
	if (left <= 0 || (s->ready.n && s->ready.entries[0].key < c->deadline))
		return 0;
	until = servers_due(s, 0, c->deadline, end + (vgpu_nsec)left);
	until = servers_least(until, most);
	if (until <= end)
		return 0;
	s->turn.cut = until < end + (vgpu_nsec)left;
	s->turn.length += until - s->turn.end;
	s->turn.end = until;
	return until - end;
}

/*
 * Returns for how much longer server INDEX, which has the engine, may run, ns, if it will have been
 * charged CHARGE ns by END, when its turn ends; 0: another server is due then, or INDEX will have
 * no budget.
 */
static inline vgpu_nsec servers_extend(struct servers *s, uint32_t index, vgpu_nsec charge,
				       vgpu_nsec end)
{
	struct cbs then = s->cbs[index];
	vgpu_nsec until;

	if (then.budget == 0)
		return 0;
	then.left -= (int64_t)charge + then.cost;
	if (s->turn.piece && then.left > 0)
		return servers_go_on(s, index, charge, end, then.deadline);
	s->turn.piece = false;
	if (then.left <= servers_crumb(s) && then.deadline <= end)
		servers_replenish(&then, servers_crumb(s), end);
	if (then.left <= 0 || (s->ready.n && s->ready.entries[0].key <= then.deadline))
		return 0;
	until = servers_due(s, 0, then.deadline, end + (vgpu_nsec)then.left);
	/* Time can be reclaimed only until the end of the server's own period. */
	until = servers_least(until, then.deadline);
	if (until <= end)
		return 0;
	s->turn.cut = until < end + (vgpu_nsec)then.left;
	s->turn.length += until - s->turn.end;
	s->turn.end = until;
	return until - end;
}

/* Ends a turn that is not charged to a budget. */
static inline void servers_turn_ends(struct servers *s)
{
	s->turn = (struct servers_turn){.end = 0};
}

/* Returns how much of a budget a turn uses: its run time, ns. Instalments for windows and resets do
 * not count: if they did, the VF would not get its own budgets. */
static inline vgpu_nsec servers_service(const struct vgpu_usage *usage)
{
	return servers_least(usage->used, usage->charge - usage->switched);
}

/* Ends a turn by INDEX's budget, from which SERVICE (ns) is taken, and the switch if that is the
 * server's own. */
static inline void servers_charge(struct servers *s, const struct vgpu_usage *usage,
				  vgpu_nsec service)
{
	struct cbs *c = &s->cbs[usage->vf];
	int64_t switched = (int64_t)usage->switched;
	bool early = usage->reason == VGPU_END_SLICE && usage->used < usage->granted;

	/* Admission has counted one switch of the longest time; a longer one is due to the VF's own
	 * state. */
	switched -= c->cost ? c->cost : (int64_t)s->facts->switch_high_ns;
	c->left -= (int64_t)service + c->cost + (switched > 0 ? switched : 0);
	c->ran = true;
	/* The host interrupts the longest turns, to check that VFs stop; admission has counted
	 * that. */
	c->displaced = (usage->reason == VGPU_END_SLICE &&
			(s->turn.cut || usage->granted >= s->facts->max_slice_ns)) ||
		       usage->reason == VGPU_END_WAKE_PREEMPT ||
		       usage->reason == VGPU_END_EXCLUSIVE;
	if (early && !c->displaced && c->left > 0)
		c->early += servers_least((vgpu_nsec)c->left, 2 * s->facts->switch_high_ns +
								      (vgpu_nsec)servers_crumb(s));
	if (c->left < 0 && (vgpu_nsec)-c->left > c->deepest)
		c->deepest = (vgpu_nsec)-c->left;
	/* A job that began in this turn has the budget that the one before it has left. */
	if (c->left < 0 && c->deadline <= usage->end && (vgpu_nsec)-c->left > c->lost)
		c->lost = (vgpu_nsec)-c->left;
	s->worst = usage->overrun > s->worst ? usage->overrun : s->worst;
	servers_turn_ends(s);
	servers_queue(s, usage->vf);
}

/*
 * Charges INDEX for having run in the background from START to END, perhaps into a new period of
 * its own. What it ran since the start of that period is taken out of its budget; otherwise the
 * server could still use its whole budget at the end of the period, which admission has not counted
 * for the other servers. Returns how much was taken, in ns.
 */
static inline vgpu_nsec servers_had(struct servers *s, uint32_t index, vgpu_nsec start,
				    vgpu_nsec end)
{
	struct cbs *c = &s->cbs[index];
	vgpu_nsec since;

	if (c->budget == 0 || c->deadline >= end)
		return 0;
	if (c->left <= servers_enough(s, c))
		servers_replenish(c, servers_crumb(s), end);
	since = c->released > start ? c->released : start;
	if (c->left <= 0 || since >= end)
		return 0;
	since = servers_least(end - since, (vgpu_nsec)c->left);
	c->left -= (int64_t)since;
	return since;
}

/* Returns whether the switch has become longer than was assumed when pieces were computed, or found
 * NEEDLESS: promises_changed() must then be called. */
static inline bool servers_outgrown(const struct servers *s, bool needless)
{
	return (s->cut || needless) && s->facts->switch_high_ns > s->reckoned;
}

/*
 * Sets budget and period, without giving credit: the server stays as far ahead of its bandwidth as
 * it was, and a new period begins.
 */
static inline void servers_set(struct servers *s, uint32_t index, vgpu_nsec budget,
			       vgpu_nsec period, bool dispatched, vgpu_nsec now)
{
	struct cbs *c = &s->cbs[index];
	int64_t ahead;

	if (c->budget == budget && c->period == period)
		return;
	servers_dequeue(s, index);
	if (c->budget ==
	    0) { /* it has had no bandwidth until now: its new bandwidth pays off what it owes */
		c->budget = budget;
		c->period = period;
		c->left += (int64_t)budget;
	}
	ahead = servers_ahead(c, now);
	c->budget = budget;
	c->period = period;
	c->left = (int64_t)budget - ahead;
	servers_begin_period(c, now);
	c->lost = 0;
	if (c->left < 0 && (vgpu_nsec)-c->left > c->deepest)
		c->deepest = (vgpu_nsec)-c->left;
	if (!dispatched)
		servers_queue(s, index);
}

/* Returns how far INDEX is ahead of its bandwidth, as a debt, ns: see export_lag and import_lag. */
static inline int64_t servers_export_lag(const struct servers *s, uint32_t index, vgpu_nsec now)
{
	return -servers_ahead(&s->cbs[index], now);
}

static inline void servers_import_lag(struct servers *s, uint32_t index, int64_t lag)
{
	struct cbs *c = &s->cbs[index];

	if (lag >= 0 || c->budget == 0)
		return;
	c->left = (int64_t)c->budget + lag;
	c->released = VGPU_NEVER; /* until servers_online() sets it */
	c->lent = true;
	if (c->left < 0 && (vgpu_nsec)-c->left > c->deepest)
		c->deepest = (vgpu_nsec)-c->left;
}

/* Must be called when the policy begins, after the lags were imported. A server's first period
 * begins at NOW: the time until the change pays off no debt. */
static inline void servers_online(struct servers *s, uint32_t index, vgpu_nsec now)
{
	struct cbs *c = &s->cbs[index];

	if (c->released != VGPU_NEVER)
		return;
	servers_begin_period(c, now);
	c->lent = true;
	c->repays = true;
}

/*
 * Writes what a server is promised. A job has its budget, less what the VF has been seen to lose of
 * budgets by stopping late or early. It waits until its period is over, or until the present turn,
 * of at most LONGEST ns, is over; for the worst overrun of that turn and of a turn of each server;
 * for as many more periods as it owes budgets; until the end of the last period is noticed; and
 * runs within the next.
 */
static inline void servers_bound(const struct servers *s, uint32_t index, vgpu_nsec longest,
				 struct vgpu_bound *out)
{
	const struct cbs *c = &s->cbs[index];
	vgpu_nsec n = 1, owing;
	uint32_t i;

	if (c->budget == 0)
		return;
	for (i = 0; i < s->facts->max_vfs; i++)
		n += s->cbs[i].budget > 0;
	out->period = c->period;
	out->budget = c->budget > c->lost ? c->budget - c->lost : 0;
	/* A period may begin late by the length of a turn that was planned without it. */
	owing = c->deepest + (vgpu_nsec)servers_crumb(s) + 2 * s->facts->switch_high_ns;
	out->max_wait = longest + n * s->worst + s->facts->switch_high_ns + s->late +
			(2 + owing / c->budget) * (c->period + longest + s->worst);
}
