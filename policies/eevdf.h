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
 * makes its requests due sooner (latency slice), not shorter.
 *
 * Three heaps, of VFs that wait for V, of eligible ones, and of sleeping ones that still owe, make
 * a decision O(log n).
 */
#ifndef POLICIES_EEVDF_H
#define POLICIES_EEVDF_H

#include "heap.h"
#include "vgpu/policy.h"
#include "vgpu/vtime.h"

/* The largest lag, either way, that is taken over from another policy. */
#define EEVDF_CARRIED ((int64_t)VGPU_SEC)

struct eevdf_vf {
	struct vtime_vf t;
	bool admitted;
	bool competes;	   /* it has work, and may run */
	vgpu_nsec latency; /* service after which each request is due; 0: not configured */
	uint64_t least;	   /* the shortest slice, in virtual time */
	uint64_t deadline; /* the end of its request, in virtual time */
	uint64_t eligible; /* the V at which it is eligible; valid while it is queued */
	int64_t owed;	   /* what it owed when it began to wait, for its wait bound */
	int64_t worst;	   /* the most that it was served beyond a grant */
};

struct eevdf {
	const struct vgpu_facts *facts;
	struct eevdf_vf *vfs; /* by VF; several engines may share it, as long as each VF is a member
				 of one only */
	struct vtime t;
	vgpu_nsec slice;
	uint32_t current;    /* the VF that was taken and not yet put back */
	bool running;	     /* the current VF runs */
	bool importing;	     /* lags of another policy were imported since the last decision */
	vgpu_nsec run_since; /* the current VF is charged up to this instant */
	int64_t run_counted; /* how much of its dispatch is charged already */
	vgpu_nsec lone_end;  /* it goes on alone until then, or NEVER; 0: it does not */
	vgpu_nsec longest;   /* the longest slice so far: with slice = auto it changes */
	uint64_t unpaid;     /* the largest used / charge so far, in 1024ths */
	struct heap ready, waiting, leaving;
};

static inline size_t eevdf_memory(uint32_t max_vfs)
{
	return 3 * heap_memory(max_vfs);
}

/* MEMORY: eevdf_memory() bytes, owned by the caller; returns the first byte after them. */
static inline void *eevdf_init(struct eevdf *e, const struct vgpu_facts *facts,
			       struct eevdf_vf *vfs, void *memory)
{
	e->facts = facts;
	e->vfs = vfs;
	e->current = VGPU_NO_VF;
	e->unpaid = 1024;
	vtime_init(&e->t);
	memory = heap_init(&e->ready, memory, facts->max_vfs);
	memory = heap_init(&e->waiting, memory, facts->max_vfs);
	return heap_init(&e->leaving, memory, facts->max_vfs);
}

/* Returns when the VF's request is due, in virtual time. */
static inline uint64_t eevdf_due(const struct eevdf *e, const struct eevdf_vf *vf)
{
	if (vf->latency == 0 || vf->latency >= e->slice)
		return vf->deadline;
	return vf->deadline - vtime_distance((int64_t)(e->slice - vf->latency), vf->t.weight);
}

/*
 * Returns the V at which a VF becomes eligible: it may be ahead by the shortest slice. Without that
 * slack, preempting one VF some microseconds early would make all others ineligible, and noise
 * would decide the order of turns.
 */
static inline uint64_t eevdf_eligible_at(const struct eevdf_vf *vf)
{
	return vf->t.v - vf->least;
}

/* Requires VF->eligible, as it is while the VF is queued. */
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
		vtime_leave(&e->t, &e->vfs[index].t);
	}
}

/* Returns the service that a VF is owed, in ns; negative: it owes. */
static inline int64_t eevdf_lag(const struct eevdf *e, uint32_t index)
{
	return e->vfs[index].t.member ? vtime_lag(&e->t, &e->vfs[index].t) : 0;
}

static inline void eevdf_begins_to_wait(const struct eevdf *e, uint32_t index)
{
	int64_t lag = eevdf_lag(e, index);

	e->vfs[index].owed = lag < 0 ? -lag : 0;
}

/* Begins a new request at the VF's v. */
static inline void eevdf_renew(const struct eevdf *e, struct eevdf_vf *vf)
{
	vf->deadline = vf->t.v + vtime_distance((int64_t)e->slice, vf->t.weight);
}

/* Moves the deadline on by whole requests, until there is room for a slice worth a switch. */
static inline void eevdf_advance(const struct eevdf *e, struct eevdf_vf *vf)
{
	int64_t missing = (int64_t)(vf->t.v + vf->least - vf->deadline);
	uint64_t request;

	if (missing <= 0)
		return;
	request = vtime_distance((int64_t)e->slice, vf->t.weight);
	vf->deadline += ((uint64_t)missing + request - 1) / request * request;
}

/* The host has written off some of the run: V and v have gone back, and so do the requests that it
 * has moved on by. Else the VF's next slice would be as long as what was written off. */
static inline void eevdf_retreat(const struct eevdf *e, struct eevdf_vf *vf)
{
	uint64_t request = vtime_distance((int64_t)e->slice, vf->t.weight);
	int64_t beyond = (int64_t)(vf->deadline - vf->t.v - vf->least);

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

/* The VF has work and may run: it competes. */
static inline void eevdf_wake(struct eevdf *e, uint32_t index, vgpu_nsec now)
{
	struct eevdf_vf *vf = &e->vfs[index];

	eevdf_update(e, now);
	if (e->lone_end > now)
		e->lone_end = now;
	if (!e->importing) /* a VF that has not slept keeps what it is owed */
		eevdf_settle(e);
	vf->competes = true;
	heap_remove(&e->leaving, index);
	if (!vf->t.member)
		vtime_join(&e->t, &vf->t, vtime_now(&e->t));
	eevdf_renew(e, vf);
	eevdf_begins_to_wait(e, index);
	eevdf_queue(e, index);
}

/* The VF has no work, or may not run. It keeps its debt. */
static inline void eevdf_sleep(struct eevdf *e, uint32_t index, vgpu_nsec now)
{
	struct eevdf_vf *vf = &e->vfs[index];

	eevdf_update(e, now);
	eevdf_dequeue(e, index);
	vf->competes = false;
	if (vtime_reached(&e->t, vf->t.v)) {
		vtime_leave(&e->t, &vf->t);
		return;
	}
	heap_insert(&e->leaving, index, vf->t.v);
}

/* Removes the VF from this engine: what it is owed, or owes, is forgotten. */
static inline void eevdf_forget(struct eevdf *e, uint32_t index)
{
	eevdf_dequeue(e, index);
	heap_remove(&e->leaving, index);
	e->vfs[index].competes = false;
	if (e->vfs[index].t.member)
		vtime_leave(&e->t, &e->vfs[index].t);
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
	vf->least = vtime_distance((int64_t)e->facts->min_slice_ns, weight);
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

/* Returns the VF to run next, or VGPU_NO_VF if no VF competes. */
static inline uint32_t eevdf_first(struct eevdf *e)
{
	uint32_t index;

	e->importing = false;
	eevdf_settle(e);
	vtime_rebase(&e->t);
	while ((index = heap_first(&e->waiting)) != VGPU_NO_VF &&
	       eevdf_is_eligible(e, &e->vfs[index])) {
		heap_remove(&e->waiting, index);
		heap_insert(&e->ready, index, eevdf_due(e, &e->vfs[index]));
	}
	/* V may have gone back since, by what the host has written off. */
	while ((index = heap_first(&e->ready)) != VGPU_NO_VF &&
	       !eevdf_is_eligible(e, &e->vfs[index])) {
		heap_remove(&e->ready, index);
		heap_insert(&e->waiting, index, e->vfs[index].eligible);
	}
	/* If none is eligible, take the first that waits: sleeping VFs still owe, or V is rounded.
	 */
	return index != VGPU_NO_VF ? index : heap_first(&e->waiting);
}

/* Returns whether eevdf_first(), which was just called, would have returned the current VF if that
 * were queued, too. */
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

/* Returns the length of the rest of the VF's request. */
static inline vgpu_nsec eevdf_length(const struct eevdf *e, uint32_t index)
{
	const struct eevdf_vf *vf = &e->vfs[index];

	return (vgpu_nsec)vtime_service(vf->deadline - vf->t.v, vf->t.weight);
}

/* Takes INDEX out of the queues to run it, and returns for how long. eevdf_account puts it back. */
static inline vgpu_nsec eevdf_take(struct eevdf *e, uint32_t index)
{
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
}

/*
 * Returns for how much longer than END, the end of its grant, the running VF may run because it
 * would be picked again then; 0: it would not. A VF without competitors may run for the longest
 * slice, but only if no VF outside of this engine has work either (ALONE): the host cuts such a
 * grant when another VF wakes.
 */
static inline vgpu_nsec eevdf_extend(struct eevdf *e, bool alone, vgpu_nsec end)
{
	eevdf_update(e, end);
	eevdf_advance(e, &e->vfs[e->current]);
	if (eevdf_first(e) == VGPU_NO_VF && alone) {
		e->lone_end = VGPU_NEVER;
		return e->facts->max_slice_ns;
	}
	if (!eevdf_would_be_first(e))
		return 0;
	e->lone_end = 0;
	return eevdf_length(e, e->current);
}

/* Learns what bounds must count: overruns, what a VF that was alone still used beside one that
 * woke, and what the host has written off. */
static inline void eevdf_learn(struct eevdf *e, struct eevdf_vf *vf, const struct vgpu_usage *usage)
{
	int64_t beyond = (int64_t)usage->charge - (int64_t)usage->granted;
	uint64_t unpaid;

	if (e->running && e->lone_end && usage->end > e->lone_end)
		beyond = (int64_t)(usage->charge + usage->end - e->lone_end - usage->used);
	if ((int64_t)usage->overrun > beyond)
		beyond = (int64_t)usage->overrun;
	if (beyond > vf->worst)
		vf->worst = beyond;
	if (usage->charge == 0 || usage->used <= usage->charge) /* at most 1024 */
		return;
	unpaid = (usage->used * 1024 + usage->charge - 1) / usage->charge;
	if (unpaid > e->unpaid)
		e->unpaid = unpaid;
}

/*
 * Ends the dispatch of the current VF, which costs it CHARGE. A VF that gives the engine up at once
 * has cost a switch all the same, so it pays for at least the shortest slice; else storms of tiny
 * jobs would stop the virtual time by which all others wait.
 */
static inline void eevdf_account(struct eevdf *e, const struct vgpu_usage *usage, int64_t charge)
{
	struct eevdf_vf *vf = &e->vfs[e->current];
	int64_t least = (int64_t)e->facts->min_slice_ns;
	int64_t more = charge - (e->running ? e->run_counted : 0);

	eevdf_learn(e, vf, usage);
	vtime_charge(&e->t, &vf->t, more);
	if (more < 0)
		eevdf_retreat(e, vf);
	if (usage->reason == VGPU_END_YIELD && charge < least)
		vtime_charge(&e->t, &vf->t, least - charge);
	eevdf_advance(e, vf);
	eevdf_begins_to_wait(e, e->current);
	eevdf_queue(e, e->current);
	e->running = false;
	e->current = VGPU_NO_VF;
}

/* Imports a lag after a change of policy, before any VF wakes. All lags count from one V, so that
 * VFs owe each other what they did before. A VF that does not wake is settled at the first
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

#endif
