/* SPDX-License-Identifier: MIT */
/*
 * Earliest eligible virtual deadline first (EEVDF; Stoica and Abdel-Wahab, TR-95-22): the engine
 * behind `fair`, behind the excess of `qos`, and inside each class of `prio`. A VF is eligible
 * while it has been served at most its share, v <= V. Of the eligible VFs the one whose request is
 * due first runs. Deadlines lie on a grid of requests: what a VF uses beyond one request is taken
 * out of its next, so that the VF that stops late pays for it, at once and in full.
 *
 * A world switch costs more than a CPU's context switch. So all requests are one slice long, which
 * is worth a switch, and a VF gets its slice in one piece. To have a VF served sooner, an operator
 * makes its requests due sooner (latency slice), not shorter. A VF that wakes at regular times
 * (cadence.h) may be favoured: its requests are due at once, and it is eligible while it is ahead
 * by a bounded amount. Where a switch is cheap, so is the first turn of any VF after it has slept.
 *
 * Three heaps, of VFs that wait for V, of eligible ones, and of sleeping ones that still owe, make
 * a decision O(log n).
 */
#pragma once

#include "cadence.h"
#include "heap.h"
#include "vgpu/policy.h"
#include "vgpu/vtime.h"

/* A switch that takes at most this part of a slice is cheap: it is worth a wake. */
#define EEVDF_CHEAP 50

/* The largest lag, either way, that is taken over from another policy. */
#define EEVDF_CARRIED ((int64_t)VGPU_SEC)

struct eevdf_vf {
	struct vtime_vf t;
	bool admitted;
	bool competes;	   /* it has work, and may run */
	vgpu_nsec latency; /* service after which each request is due; 0: not configured */
	uint64_t least;	   /* the shortest slice, in virtual time */
	struct cadence cadence;
	uint64_t favour;   /* how far it may be ahead because it wakes at regular times, or has just
			    * woken, in virtual time; 0: it is not favoured */
	uint64_t deadline; /* the end of its request, in virtual time */
	uint64_t eligible; /* the V at which it is eligible; valid while it is queued */
	int64_t owed;	   /* its debt when it began to wait, ns, for its wait bound */
	int64_t worst;	   /* the most that it was served beyond a grant, ns */
	int64_t early;	  /* the most that was left of a prolonged grant when another VF woke, ns */
	int64_t kept;	  /* the longest rest of a request that was added to its next one, ns */
	int64_t held;	  /* the largest credit that it kept, because it got work in time, ns */
	int64_t deferred; /* the part of its charge that its requests do not count yet, ns */
	uint64_t uncounted; /* the same, in virtual time */
};

struct eevdf {
	const struct vgpu_facts *facts;
	struct eevdf_vf *vfs; /* by VF; several engines may share it, as long as each VF is a member
				 of one only */
	struct vtime t;
	vgpu_nsec slice;
	vgpu_nsec favour;    /* how far a VF that wakes at regular times may be ahead, ns; 0: no VF
			      * is favoured */
	uint32_t current;    /* the VF that eevdf_take() returned and that eevdf_account() has not
			      * put back yet */
	bool running;	     /* the current VF runs */
	bool importing;	     /* lags were imported from another policy since the last decision */
	vgpu_nsec run_since; /* the current VF is charged up to this instant */
	int64_t run_counted; /* how much of its dispatch is charged already, ns */
	vgpu_nsec lone_end;  /* until when the current VF, which has no rival, was extended, or
			      * VGPU_NEVER; 0: it was not */
	vgpu_nsec prolonged; /* the end of the grant that was prolonged last; 0: none */
	vgpu_nsec longest;   /* the longest slice so far: with slice = auto it changes */
	uint64_t unpaid;     /* the largest used / charge so far, in 1024ths */
	uint32_t claimant; /* the VF that has run out of work in its turn, until it is clear whether
			    * that ends the turn; or VGPU_NO_VF */
	int64_t claim;	   /* the claimant's credit then, ns */
	vgpu_nsec ended;   /* when a turn ended last */
	struct heap ready, waiting, leaving;
	struct heap late; /* VFs that have joined since then */
};

static inline size_t eevdf_memory(uint32_t max_vfs)
{
	return 4 * heap_memory(max_vfs);
}

/* Makes an engine without members. MEMORY: eevdf_memory() bytes, owned by the caller, which outlive
 * E. Returns the first byte after them. */
static inline void *eevdf_init(struct eevdf *e, const struct vgpu_facts *facts,
			       struct eevdf_vf *vfs, void *memory)
{
	e->facts = facts;
	e->vfs = vfs;
	e->current = VGPU_NO_VF;
	e->claimant = VGPU_NO_VF;
	e->unpaid = 1024;
	vtime_init(&e->t);
	memory = heap_init(&e->ready, memory, facts->max_vfs);
	memory = heap_init(&e->waiting, memory, facts->max_vfs);
	memory = heap_init(&e->leaving, memory, facts->max_vfs);
	return heap_init(&e->late, memory, facts->max_vfs);
}

/* Returns when the VF's request is due, in virtual time. */
static inline uint64_t eevdf_due(const struct eevdf *e, const struct eevdf_vf *vf)
{
	if (vf->favour)
		return vf->deadline - vtime_distance((int64_t)e->slice, vf->t.weight);
	if (vf->latency == 0 || vf->latency >= e->slice)
		return vf->deadline;
	return vf->deadline - vtime_distance((int64_t)(e->slice - vf->latency), vf->t.weight);
}

/* Returns where the VF's requests are, in virtual time. */
static inline uint64_t eevdf_counted(const struct eevdf_vf *vf)
{
	return vf->t.v - vf->uncounted;
}

/* Sets the part of the VF's service that its requests do not count yet, in ns. V counts all of it
 * at once: if V fell, VFs that have joined meanwhile would owe the difference. */
static inline void eevdf_defer(struct eevdf_vf *vf, int64_t ns)
{
	vf->deferred = ns;
	vf->uncounted = ns ? vtime_distance(ns, vf->t.weight) : 0;
}

/* Sets the length of a request, ns: at least the shortest slice, because with a shorter request a
 * turn would hold one or two requests, depending on the rest of the last one. */
static inline void eevdf_set_slice(struct eevdf *e, vgpu_nsec slice)
{
	e->slice = slice > e->facts->min_slice_ns ? slice : e->facts->min_slice_ns;
}

static inline void eevdf_leave(struct eevdf *e, struct eevdf_vf *vf)
{
	vtime_leave(&e->t, &vf->t);
	eevdf_defer(vf, 0);
}

/*
 * Returns the V at which a VF becomes eligible: it may be ahead by the shortest slice. Without that
 * slack, preempting one VF some microseconds early would make all others ineligible, and noise
 * would decide the order of turns. One that is favoured may be ahead by more.
 */
static inline uint64_t eevdf_eligible_at(const struct eevdf_vf *vf)
{
	return eevdf_counted(vf) - vf->least - vf->favour;
}

/* Returns whether a VF is eligible at the present V. VF->eligible must be valid, as it is while the
 * VF is queued. */
static inline bool eevdf_is_eligible(const struct eevdf *e, const struct eevdf_vf *vf)
{
	return vtime_reached(&e->t, vf->eligible);
}

static inline void eevdf_queue(struct eevdf *e, uint32_t index)
{
	struct eevdf_vf *vf = &e->vfs[index];

	vf->eligible = eevdf_eligible_at(vf);
	if (eevdf_is_eligible(e, vf))
		heap_insert(&e->ready, index, eevdf_due(e, vf));
	else
		heap_insert(&e->waiting, index, vf->eligible);
}

static inline void eevdf_dequeue(struct eevdf *e, uint32_t index)
{
	heap_remove(&e->ready, index);
	heap_remove(&e->waiting, index);
}

/* Ends the membership of sleeping VFs whose debts V has passed. */
static inline void eevdf_settle(struct eevdf *e)
{
	uint32_t index;

	while ((index = heap_first(&e->leaving)) != VGPU_NO_VF &&
	       vtime_reached(&e->t, e->vfs[index].t.v)) {
		heap_remove(&e->leaving, index);
		eevdf_leave(e, &e->vfs[index]);
	}
}

/* Returns the service that a VF is owed, in ns; negative: it owes. */
static inline int64_t eevdf_lag(const struct eevdf *e, uint32_t index)
{
	return e->vfs[index].t.member ? vtime_lag(&e->t, &e->vfs[index].t) : 0;
}

static inline void eevdf_begins_to_wait(const struct eevdf *e, uint32_t index)
{
	struct eevdf_vf *vf = &e->vfs[index];
	int64_t owed = -eevdf_lag(e, index) - vf->deferred;

	vf->owed = owed > 0 ? owed : 0;
}

/* Begins a new request at the VF's v. */
static inline void eevdf_renew(const struct eevdf *e, struct eevdf_vf *vf)
{
	vf->deadline = eevdf_counted(vf) + vtime_distance((int64_t)e->slice, vf->t.weight);
}

/* Moves the deadline on by whole requests, until LEAST (in virtual time) fits before it. */
static inline void eevdf_advance(const struct eevdf *e, struct eevdf_vf *vf, uint64_t least)
{
	int64_t missing = (int64_t)(eevdf_counted(vf) + least - vf->deadline);
	uint64_t request;

	if (missing <= 0)
		return;
	request = vtime_distance((int64_t)e->slice, vf->t.weight);
	vf->deadline += ((uint64_t)missing + request - 1) / request * request;
}

/* Moves a VF's requests back, in two cases: the host has written off a part of the run, so that V
 * and v have gone back; or the VF has stopped before the end of its prolonged grant. Otherwise its
 * next slice would be longer by the difference. */
static inline void eevdf_retreat(const struct eevdf *e, struct eevdf_vf *vf)
{
	uint64_t request = vtime_distance((int64_t)e->slice, vf->t.weight);
	int64_t beyond = (int64_t)(vf->deadline - eevdf_counted(vf) - vf->least);

	if (beyond > 0)
		vf->deadline -= (uint64_t)beyond / request * request;
}

/* Charges the running VF up to NOW, so that V is right in the middle of a slice. */
static inline void eevdf_update(struct eevdf *e, vgpu_nsec now)
{
	int64_t more;

	if (!e->running || now <= e->run_since)
		return;
	more = (int64_t)(now - e->run_since);
	vtime_charge(&e->t, &e->vfs[e->current].t, more);
	e->run_counted += more;
	e->run_since = now;
}

/* Reduces the deferred charge of a VF that slept to what the VF still owes. */
static inline void eevdf_clear_paid(const struct eevdf *e, struct eevdf_vf *vf)
{
	int64_t owes = vf->deferred ? -vtime_lag(&e->t, &vf->t) : 0;

	if (owes < vf->deferred)
		eevdf_defer(vf, owes > 0 ? owes : 0);
}

/* Notes that the running grant was prolonged on an assumption that no longer holds at NOW. */
static inline void eevdf_was_early(struct eevdf *e, vgpu_nsec now)
{
	struct eevdf_vf *vf;

	if (!e->running || e->prolonged <= now)
		return;
	vf = &e->vfs[e->current];
	if ((int64_t)(e->prolonged - now) > vf->early)
		vf->early = (int64_t)(e->prolonged - now);
}

/* Must be called when another VF begins to compete with the running one, also if it is a member of
 * another engine. */
static inline void eevdf_has_rival(struct eevdf *e, vgpu_nsec now)
{
	if (e->lone_end > now)
		e->lone_end = now;
	eevdf_was_early(e, now);
}

/* Favours the VF if it wakes at regular times, or if it has slept and a switch is cheap. */
static inline void eevdf_favour(const struct eevdf *e, struct eevdf_vf *vf, bool slept)
{
	bool favoured = cadence_is_kept(&vf->cadence) ||
			(slept && e->facts->switch_ns * EEVDF_CHEAP <= e->slice);

	vf->favour = e->favour && favoured ? vtime_distance((int64_t)e->favour, vf->t.weight) : 0;
}

/* Must be called when `favour` has changed: a VF that never sleeps does not keep its former favour.
 */
static inline void eevdf_favour_anew(struct eevdf *e, uint32_t index)
{
	bool queued = heap_has(&e->ready, index) || heap_has(&e->waiting, index);

	if (e->favour == 0) /* wakes are not counted while no VF is favoured */
		e->vfs[index].cadence = (struct cadence){.kept = 0};
	eevdf_favour(e, &e->vfs[index], false);
	if (!queued)
		return;
	eevdf_dequeue(e, index);
	eevdf_queue(e, index);
}

/* Makes a VF that has work and may run compete from NOW on. */
static inline void eevdf_wake(struct eevdf *e, uint32_t index, vgpu_nsec now)
{
	struct eevdf_vf *vf = &e->vfs[index];

	eevdf_update(e, now);
	eevdf_has_rival(e, now);
	if (!e->importing) /* a VF whose lag was imported keeps what it is owed */
		eevdf_settle(e);
	vf->competes = true;
	if (e->favour) {
		cadence_wake(&vf->cadence, now);
		eevdf_favour(e, vf, true);
	}
	heap_remove(&e->leaving, index);
	if (!vf->t.member) {
		vtime_join(&e->t, &vf->t, vtime_now(&e->t));
		if (e->claimant != VGPU_NO_VF && !heap_has(&e->late, index))
			heap_insert(&e->late, index, 0);
	}
	eevdf_clear_paid(e, vf);
	eevdf_renew(e, vf);
	eevdf_begins_to_wait(e, index);
	eevdf_queue(e, index);
}

/* Forgets who has run out of work in its turn. */
static inline void eevdf_close_claim(struct eevdf *e)
{
	e->claimant = VGPU_NO_VF;
	while (e->late.n)
		heap_remove(&e->late, heap_first(&e->late));
}

/* The claimant has had work in time, and keeps its credit. */
static inline void eevdf_hold(struct eevdf *e)
{
	if (e->claimant == VGPU_NO_VF)
		return;
	if (e->claim > e->vfs[e->claimant].held)
		e->vfs[e->claimant].held = e->claim;
	eevdf_close_claim(e);
}

/*
 * Notes that the dispatched VF has no work. If it has some again in this turn, it keeps what it is
 * owed, as if it had not paused: otherwise a VF that cuts its turns short would gain what this VF
 * forfeits.
 */
static inline void eevdf_drained(struct eevdf *e, uint32_t index, vgpu_nsec now)
{
	eevdf_update(e, now);
	eevdf_hold(e);
	e->claimant = index;
	e->claim = eevdf_lag(e, index);
}

/* Moves a member, and its request, on in virtual time. */
static inline void eevdf_move(struct eevdf *e, uint32_t index, uint64_t by)
{
	struct eevdf_vf *vf = &e->vfs[index];
	bool queued = heap_has(&e->ready, index) || heap_has(&e->waiting, index);

	vf->t.v += by;
	e->t.sum += (__int128)by * vf->t.weight;
	vf->deadline += by;
	if (queued) {
		eevdf_dequeue(e, index);
		eevdf_queue(e, index);
	} else if (heap_has(&e->leaving, index)) {
		heap_remove(&e->leaving, index);
		heap_insert(&e->leaving, index, vf->t.v);
	}
}

/*
 * If the VF is the claimant, it forfeits its credit, but at most MOST, in ns: the fluid server
 * would have served that while the VF had work. The credit goes to those that had work then: VFs
 * that have joined since move on with V, which rises. The VF owes what it has used since then.
 */
static inline void eevdf_forfeit(struct eevdf *e, uint32_t index, int64_t most)
{
	struct eevdf_vf *vf = &e->vfs[index];
	uint64_t claim, rise, others = e->t.weights - vf->t.weight;
	uint32_t i, late;

	if (e->claimant != index)
		return;
	for (i = 0; i < e->late.n; i++) {
		late = e->late.entries[i].vf;
		others -= e->vfs[late].t.member ? e->vfs[late].t.weight : 0;
	}
	most = e->claim < most ? e->claim : most;
	if (most > 0 && vf->t.member && others > 0) {
		claim = vtime_distance(most, vf->t.weight);
		rise = vtime_divide((__int128)claim * vf->t.weight, others);
		for (i = 0; i < e->late.n; i++) {
			late = e->late.entries[i].vf;
			if (e->vfs[late].t.member)
				eevdf_move(e, late, rise);
		}
		eevdf_move(e, index, claim + rise);
		eevdf_renew(e, vf);
	}
	eevdf_close_claim(e);
}

/* Makes a VF that has no work, or may not run, stop competing. It keeps its debt. */
static inline void eevdf_sleep(struct eevdf *e, uint32_t index, vgpu_nsec now)
{
	struct eevdf_vf *vf = &e->vfs[index];

	eevdf_update(e, now);
	eevdf_dequeue(e, index);
	vf->competes = false;
	/* A VF that goes to sleep as its turn ends has had no work since it drained. */
	eevdf_forfeit(e, index, now == e->ended ? INT64_MAX : eevdf_lag(e, index));
	if (vtime_reached(&e->t, vf->t.v)) {
		eevdf_leave(e, vf);
		return;
	}
	heap_insert(&e->leaving, index, vf->t.v);
}

/* Ends a turn of the VF: one that ends for lack of work costs the VF its credit, even if the VF has
 * got some meanwhile. */
static inline void eevdf_ends(struct eevdf *e, const struct vgpu_usage *usage)
{
	e->ended = usage->end;
	if (usage->reason == VGPU_END_YIELD)
		eevdf_forfeit(e, usage->vf, INT64_MAX);
	else if (usage->reason == VGPU_END_REMOVED && e->claimant == usage->vf)
		eevdf_close_claim(e);
}

/* Removes the VF from this engine: what it is owed, or owes, is forgotten. */
static inline void eevdf_forget(struct eevdf *e, uint32_t index)
{
	eevdf_dequeue(e, index);
	heap_remove(&e->leaving, index);
	heap_remove(&e->late, index);
	if (e->claimant == index)
		eevdf_close_claim(e);
	e->vfs[index].competes = false;
	if (e->vfs[index].t.member)
		eevdf_leave(e, &e->vfs[index]);
}

/* Sets weight and latency slice; keeps what the VF is owed. */
static inline void eevdf_set(struct eevdf *e, uint32_t index, uint32_t weight, vgpu_nsec latency,
			     vgpu_nsec now)
{
	struct eevdf_vf *vf = &e->vfs[index];
	bool queued = heap_has(&e->ready, index) || heap_has(&e->waiting, index);

	eevdf_update(e, now);
	eevdf_dequeue(e, index);
	vf->latency = latency;
	if (vf->t.member)
		vtime_place(&e->t, &vf->t, weight, vtime_lag(&e->t, &vf->t));
	vf->t.weight = weight;
	eevdf_defer(vf, vf->deferred);
	vf->least = vtime_distance((int64_t)e->facts->min_slice_ns, weight);
	eevdf_favour(e, vf, false);
	if (heap_has(&e->leaving, index)) {
		heap_remove(&e->leaving, index);
		heap_insert(&e->leaving, index, vf->t.v);
	}
	eevdf_renew(e, vf);
	if (queued)
		eevdf_queue(e, index);
}

/* Returns whether a VF that has just woken is due sooner than the running one, by more than a
 * switch. */
static inline bool eevdf_preempts(const struct eevdf *e, uint32_t index)
{
	const struct eevdf_vf *vf = &e->vfs[index];
	uint64_t margin = vtime_distance((int64_t)e->facts->switch_ns, vf->t.weight);

	return eevdf_is_eligible(e, vf) &&
	       (int64_t)(eevdf_due(e, vf) + margin - eevdf_due(e, &e->vfs[e->current])) < 0;
}

/* Returns the VF to run next with the present V, or VGPU_NO_VF if no VF competes. */
static inline uint32_t eevdf_first_now(struct eevdf *e)
{
	uint32_t index;

	while ((index = heap_first(&e->waiting)) != VGPU_NO_VF &&
	       eevdf_is_eligible(e, &e->vfs[index])) {
		heap_remove(&e->waiting, index);
		heap_insert(&e->ready, index, eevdf_due(e, &e->vfs[index]));
	}
	/* V may have gone back since, because the host has written off a part of the run. */
	while ((index = heap_first(&e->ready)) != VGPU_NO_VF &&
	       !eevdf_is_eligible(e, &e->vfs[index])) {
		heap_remove(&e->ready, index);
		heap_insert(&e->waiting, index, e->vfs[index].eligible);
	}
	/* If no VF is eligible, because sleeping VFs still owe or V is rounded, take the first that
	 * waits. */
	return index != VGPU_NO_VF ? index : heap_first(&e->waiting);
}

/* Forgets sleeping VFs whose debts are paid, and returns the VF to run next, or VGPU_NO_VF if no VF
 * competes. */
static inline uint32_t eevdf_first(struct eevdf *e)
{
	e->importing = false;
	eevdf_settle(e);
	vtime_rebase(&e->t);
	return eevdf_first_now(e);
}

/* Must be called right after eevdf_first_now(). Returns whether that would have returned the
 * current VF if the current VF were queued, too. */
static inline bool eevdf_would_be_first(struct eevdf *e)
{
	struct eevdf_vf *own = &e->vfs[e->current];
	const struct heap *others = e->ready.n ? &e->ready : &e->waiting;
	struct heap_entry entry = {.vf = e->current};
	bool eligible;

	if (others->n == 0)
		return true;
	own->eligible = eevdf_eligible_at(own);
	eligible = eevdf_is_eligible(e, own);
	if (eligible != (others == &e->ready))
		return eligible;
	entry.key = eligible ? eevdf_due(e, own) : own->eligible;
	return heap_before(&entry, &others->entries[0]);
}

/* Returns the length of the rest of the VF's request, ns. */
static inline vgpu_nsec eevdf_length(const struct eevdf *e, uint32_t index)
{
	const struct eevdf_vf *vf = &e->vfs[index];

	return (vgpu_nsec)vtime_service(vf->deadline - eevdf_counted(vf), vf->t.weight);
}

/* Takes INDEX out of the queues to run it, and returns for how long it may run, ns. eevdf_account()
 * puts it back. */
static inline vgpu_nsec eevdf_take(struct eevdf *e, uint32_t index)
{
	eevdf_hold(e);
	eevdf_dequeue(e, index);
	e->current = index;
	return eevdf_length(e, index);
}

static inline void eevdf_run(struct eevdf *e, vgpu_nsec now)
{
	e->running = true;
	e->run_since = now;
	e->run_counted = 0;
	e->lone_end = 0;
	e->prolonged = 0;
}

/*
 * Returns for how much longer than END, the end of its grant, the running VF may run because it
 * would be picked again then, ns; 0: it would not. A VF without competitors may run for the longest
 * slice, but only if no VF outside of this engine has work either (ALONE): the host cuts such a
 * grant when another VF wakes.
 *
 * END may be ahead of the clock by as long as the VF takes to stop, and the VF may yet stop before
 * it. So the VF is charged up to END for this decision only: a VF that wakes meanwhile joins at the
 * V of that instant.
 */
static inline vgpu_nsec eevdf_extend(struct eevdf *e, bool alone, vgpu_nsec end)
{
	struct eevdf_vf *vf = &e->vfs[e->current];
	int64_t until = end > e->run_since ? (int64_t)(end - e->run_since) : 0;
	uint64_t deadline = vf->deadline;
	vgpu_nsec more = 0;

	vtime_charge(&e->t, &vf->t, until);
	eevdf_advance(e, vf, vf->least);
	if (eevdf_first_now(e) == VGPU_NO_VF && alone) {
		e->lone_end = VGPU_NEVER;
		more = e->facts->max_slice_ns;
	} else if (eevdf_would_be_first(e)) {
		e->lone_end = 0;
		more = eevdf_length(e, e->current);
	}
	vtime_charge(&e->t, &vf->t, -until);
	if (more)
		e->prolonged = end;
	else
		vf->deadline = deadline;
	return more;
}

/* Updates what bounds must count: overruns, the time that a VF without competitors still used after
 * another had woken, and what the host has written off. */
static inline void eevdf_learn(struct eevdf *e, struct eevdf_vf *vf, const struct vgpu_usage *usage)
{
	int64_t beyond = (int64_t)usage->charge - (int64_t)usage->granted, beside = 0;
	uint64_t unpaid;

	if (e->running && e->lone_end && usage->end > e->lone_end)
		beside = (int64_t)(usage->charge + usage->end - e->lone_end - usage->used);
	if (beside > beyond)
		beyond = beside;
	if ((int64_t)usage->overrun > beyond)
		beyond = (int64_t)usage->overrun;
	if (beyond > vf->worst)
		vf->worst = beyond;
	if (usage->charge == 0 || usage->used <= usage->charge) /* the ratio is at most one */
		return;
	unpaid = (usage->used * 1024 + usage->charge - 1) / usage->charge;
	if (unpaid > e->unpaid)
		e->unpaid = unpaid;
}

/*
 * Begins the VF's next request, unless the rest of this one is at least the shortest slice, and so
 * worth a turn. If the VF has stopped sooner than it usually does, what it did not use of its
 * grant, up to a slice, is added to its next request, because another dispatch would cost all VFs a
 * switch. A grant may be shorter than the request: such a rest alone adds nothing, and is not
 * counted as kept.
 */
static inline void eevdf_go_on(const struct eevdf *e, struct eevdf_vf *vf,
			       const struct vgpu_usage *usage)
{
	int64_t rest = (int64_t)usage->granted - (int64_t)usage->used;
	uint64_t deadline = vf->deadline;

	if (usage->reason != VGPU_END_SLICE || rest < (int64_t)e->facts->min_slice_ns ||
	    rest > (int64_t)e->slice) {
		eevdf_advance(e, vf, vf->least);
		return;
	}
	/* rounding has taken at most 2 ns */
	eevdf_advance(e, vf, vtime_distance(rest + 2, vf->t.weight));
	if (vf->deadline != deadline && rest > vf->kept)
		vf->kept = rest;
}

/*
 * Ends the dispatch of the current VF, which costs it CHARGE. A VF that gives the engine up at once
 * has also cost a switch, so it pays for at least the shortest slice; otherwise many tiny jobs
 * would stop the virtual time that all others wait for.
 */
static inline void eevdf_account(struct eevdf *e, const struct vgpu_usage *usage, int64_t charge)
{
	struct eevdf_vf *vf = &e->vfs[e->current];
	int64_t least = (int64_t)e->facts->min_slice_ns;
	int64_t more = charge - (e->running ? e->run_counted : 0);

	eevdf_learn(e, vf, usage);
	vtime_charge(&e->t, &vf->t, more);
	if (more < 0 || e->prolonged)
		eevdf_retreat(e, vf);
	if (usage->reason == VGPU_END_YIELD && charge < least)
		vtime_charge(&e->t, &vf->t, least - charge);
	eevdf_go_on(e, vf, usage);
	eevdf_ends(e, usage);
	eevdf_favour(e, vf, false);
	eevdf_begins_to_wait(e, e->current);
	eevdf_queue(e, e->current);
	e->running = false;
	e->prolonged = 0;
	e->current = VGPU_NO_VF;
}

/* Imports a lag, in ns, after a change of policy and before any VF wakes. All lags count from one
 * V, so that debts between VFs are kept. A VF that does not wake is removed at the first
 * decision. */
static inline void eevdf_import_lag(struct eevdf *e, uint32_t index, int64_t lag)
{
	struct eevdf_vf *vf = &e->vfs[index];

	eevdf_forget(e, index);
	lag = lag > EEVDF_CARRIED ? EEVDF_CARRIED : lag < -EEVDF_CARRIED ? -EEVDF_CARRIED : lag;
	vtime_join(&e->t, &vf->t, e->t.base - vtime_distance(lag, vf->t.weight));
	heap_insert(&e->leaving, index, vf->t.v);
	e->importing = true;
}
