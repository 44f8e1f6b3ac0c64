/* SPDX-License-Identifier: MIT */
/*
 * Earliest eligible virtual deadline first (EEVDF; Stoica and Abdel-Wahab, TR-95-22), the engine
 * behind `fair`, behind the excess of `qos`, and inside each class of `prio`. Each VF has a virtual
 * time v, its service over its weight; V is the weighted mean of all v. A VF is owed service while
 * v <= V: then it is eligible. Among the eligible the one whose current request would be due first
 * runs, until the request is served. A VF that asks for short requests (latency slice) is served
 * sooner, not more.
 *
 * Deadlines lie on a grid of requests: what was used beyond a request is taken out of the next
 * one, so a late preemption costs the late VF, at once and in full.
 *
 * Sums are kept exactly: v in units of 2^-20 ns per weight with its remainder carried, V as a sum
 * of 128 bits. Two heaps, one of those that wait for V (by v) and one of the eligible (by
 * deadline), make a decision O(log n).
 */
#ifndef POLICIES_EEVDF_H
#define POLICIES_EEVDF_H

#include "heap.h"
#include "vgpu/policy.h"

#define EEVDF_SHIFT 20
#define EEVDF_REBASE (INT64_C(1) << 44)

/* Virtual time starts a tenth of a second before it wraps around, so that every run goes through
 * that (Linux does so with its jiffies). */
#define EEVDF_BEFORE_WRAP (UINT64_C(1) << 40)

struct eevdf_vf {
	bool competes; /* has work, and may run */
	uint32_t weight;
	vgpu_nsec request; /* 0: the slice of all */
	uint64_t v, deadline;
	uint64_t rest; /* of v: service << EEVDF_SHIFT modulo weight */
	int64_t lag;   /* while it does not compete: what it is owed */
};

struct eevdf {
	const struct vgpu_facts *facts;
	struct eevdf_vf *vfs; /* by VF; may be shared with other engines, as long as each VF
			       * competes in one only */
	vgpu_nsec slice;
	int64_t lag_cap;     /* ns */
	uint32_t current;    /* taken, and not yet put back */
	bool running;	     /* it runs */
	vgpu_nsec run_since; /* up to here the current VF's v is right */
	int64_t run_counted; /* of its dispatch */
	uint64_t base;
	uint64_t weights;  /* of those that compete */
	__int128 sum;	   /* of weight * (v - base) + rest, over those that compete */
	vgpu_nsec longest; /* slice so far, where it changes by itself */
	int64_t worst;	   /* most that was charged beyond a grant */
	struct heap ready, waiting;
};

static inline size_t eevdf_memory(uint32_t max_vfs)
{
	return 2 * heap_memory(max_vfs);
}

/* MEMORY: eevdf_memory bytes; returns what follows. */
static inline void *eevdf_init(struct eevdf *e, const struct vgpu_facts *facts,
			       struct eevdf_vf *vfs, void *memory)
{
	e->facts = facts;
	e->vfs = vfs;
	e->current = VGPU_NO_VF;
	e->base = -EEVDF_BEFORE_WRAP;
	memory = heap_init(&e->ready, memory, facts->max_vfs);
	return heap_init(&e->waiting, memory, facts->max_vfs);
}

static inline uint64_t eevdf_scaled(uint64_t ns, uint32_t weight)
{
	return (ns << EEVDF_SHIFT) / weight;
}

/*
 * The v at which a VF becomes eligible again: it may be ahead by the shortest slice. Without that
 * slack an early preemption of one VF, by microseconds, makes all others ineligible, and the order
 * of turns would follow the noise.
 */
static inline uint64_t eevdf_eligible_at(const struct eevdf *e, const struct eevdf_vf *vf)
{
	return vf->v - eevdf_scaled(e->facts->min_slice_ns, vf->weight);
}

static inline bool eevdf_is_eligible(const struct eevdf *e, const struct eevdf_vf *vf)
{
	return (__int128)(int64_t)(eevdf_eligible_at(e, vf) - e->base) * (__int128)e->weights <=
	       e->sum;
}

static inline void eevdf_queue(struct eevdf *e, uint32_t index)
{
	const struct eevdf_vf *vf = &e->vfs[index];

	if (eevdf_is_eligible(e, vf))
		heap_insert(&e->ready, index, vf->deadline);
	else
		heap_insert(&e->waiting, index, eevdf_eligible_at(e, vf));
}

static inline void eevdf_dequeue(struct eevdf *e, uint32_t index)
{
	heap_remove(&e->ready, index);
	heap_remove(&e->waiting, index);
}

static inline uint64_t eevdf_mean(const struct eevdf *e)
{
	return e->weights ? e->base + (uint64_t)(e->sum / (__int128)e->weights) : e->base;
}

/* When V has come far from the base, the base follows. */
static inline void eevdf_rebase(struct eevdf *e)
{
	__int128 far = (__int128)e->weights * EEVDF_REBASE;
	uint64_t to;

	if (e->sum < far && e->sum > -far)
		return;
	to = eevdf_mean(e);
	e->sum -= (__int128)e->weights * (int64_t)(to - e->base);
	e->base = to;
}

/* What a distance in virtual time is in service, for a VF, and back. */
static inline int64_t eevdf_service(const struct eevdf_vf *vf, uint64_t distance)
{
	return (int64_t)((__int128)(int64_t)distance * vf->weight >> EEVDF_SHIFT);
}

static inline uint64_t eevdf_distance(const struct eevdf_vf *vf, int64_t service)
{
	return (uint64_t)(int64_t)((__int128)service * (1 << EEVDF_SHIFT) / vf->weight);
}

/*
 * A VF that sleeps keeps what it is owed. What it owes it pays off as V moves on, as if it still
 * competed and did not run (Linux: deferred dequeue); it cannot sleep a debt away any faster.
 */
static inline int64_t eevdf_lag(const struct eevdf *e, uint32_t index)
{
	const struct eevdf_vf *vf = &e->vfs[index];
	int64_t lag = eevdf_service(vf, eevdf_mean(e) - vf->v);

	if (vf->competes || vf->lag < 0)
		return vf->competes || lag < 0 ? lag : 0;
	return vf->lag;
}

static inline vgpu_nsec eevdf_request(const struct eevdf *e, const struct eevdf_vf *vf)
{
	return vf->request ? vf->request : e->slice;
}

/* Moves the deadline on, by whole requests, until it leaves room for a slice worth a switch. */
static inline void eevdf_renew(const struct eevdf *e, struct eevdf_vf *vf)
{
	uint64_t least = eevdf_scaled(e->facts->min_slice_ns, vf->weight);
	uint64_t request = eevdf_scaled(eevdf_request(e, vf), vf->weight);
	int64_t missing = (int64_t)(vf->v + least - vf->deadline);

	if (missing > 0)
		vf->deadline += ((uint64_t)missing + request - 1) / request * request;
}

static inline void eevdf_join(struct eevdf *e, struct eevdf_vf *vf, int64_t lag)
{
	int64_t behind = (int64_t)eevdf_distance(vf, lag);

	/* Its coming moves V towards it; placed this far away, its lag is what it was. */
	if (e->weights)
		behind = (int64_t)((__int128)behind * (__int128)(e->weights + vf->weight) /
				   (__int128)e->weights);
	vf->v = eevdf_mean(e) - (uint64_t)behind;
	vf->rest = 0;
	vf->deadline = vf->v + eevdf_scaled(eevdf_request(e, vf), vf->weight);
	vf->competes = true;
	e->weights += vf->weight;
	e->sum += (__int128)(int64_t)(vf->v - e->base) * vf->weight;
}

static inline void eevdf_leave(struct eevdf *e, struct eevdf_vf *vf)
{
	int64_t ceiling = (int64_t)eevdf_request(e, vf);
	int64_t lag = eevdf_service(vf, eevdf_mean(e) - vf->v);

	vf->lag = lag < -e->lag_cap ? -e->lag_cap : lag > ceiling ? ceiling : lag;
	e->sum -= (__int128)(int64_t)(vf->v - e->base) * vf->weight + (__int128)vf->rest;
	e->weights -= vf->weight;
	if (e->weights == 0)
		e->sum = 0;
	vf->competes = false;
	vf->v = eevdf_mean(e) - eevdf_distance(vf, vf->lag);
}

/* Rounded down, the rest carried on. Divided in two steps, which need no more than 64 bits. */
static inline void eevdf_charge(struct eevdf *e, struct eevdf_vf *vf, int64_t ns)
{
	int64_t weight = vf->weight, whole = ns / weight, rest = ns % weight;
	uint64_t low;

	if (rest < 0) {
		whole--;
		rest += weight;
	}
	low = ((uint64_t)rest << EEVDF_SHIFT) + vf->rest;
	vf->v += ((uint64_t)whole << EEVDF_SHIFT) + low / vf->weight;
	vf->rest = low % vf->weight;
	e->sum += (__int128)ns * (1 << EEVDF_SHIFT);
}

/* Brings the v of the VF that runs up to date, so that V is right in the middle of a slice. */
static inline void eevdf_update(struct eevdf *e, vgpu_nsec now)
{
	int64_t more;

	if (!e->running || now <= e->run_since)
		return;
	more = (int64_t)(now - e->run_since);
	eevdf_charge(e, &e->vfs[e->current], more);
	e->run_counted += more;
	e->run_since = now;
}

/* New weight and request length; lag is kept. */
static inline void eevdf_set(struct eevdf *e, uint32_t index, uint32_t weight, vgpu_nsec request,
			     vgpu_nsec now)
{
	struct eevdf_vf *vf = &e->vfs[index];
	bool queued = heap_has(&e->ready, index) || heap_has(&e->waiting, index);
	bool competes = vf->competes;

	eevdf_update(e, now);
	eevdf_dequeue(e, index);
	if (competes)
		eevdf_leave(e, vf);
	else if (vf->weight)
		vf->lag = eevdf_lag(e, index);
	vf->weight = weight;
	vf->request =
		request && request < e->facts->min_slice_ns ? e->facts->min_slice_ns : request;
	vf->v = eevdf_mean(e) - eevdf_distance(vf, vf->lag);
	if (!competes)
		return;
	eevdf_join(e, vf, vf->lag);
	if (queued)
		eevdf_queue(e, index);
}

static inline void eevdf_wake(struct eevdf *e, uint32_t index, vgpu_nsec now)
{
	eevdf_update(e, now);
	eevdf_join(e, &e->vfs[index], eevdf_lag(e, index));
	eevdf_queue(e, index);
}

static inline void eevdf_sleep(struct eevdf *e, uint32_t index, vgpu_nsec now)
{
	eevdf_update(e, now);
	eevdf_dequeue(e, index);
	eevdf_leave(e, &e->vfs[index]);
}

/* Whether a VF that has just woken is due sooner than the one that runs, by more than a switch. */
static inline bool eevdf_preempts(const struct eevdf *e, uint32_t index)
{
	const struct eevdf_vf *vf = &e->vfs[index];
	uint64_t margin = eevdf_scaled(e->facts->switch_ns, vf->weight);

	return eevdf_is_eligible(e, vf) &&
	       (int64_t)(vf->deadline + margin - e->vfs[e->current].deadline) < 0;
}

/* Who is next, or VGPU_NO_VF if nobody competes. */
static inline uint32_t eevdf_first(struct eevdf *e)
{
	uint32_t index;

	eevdf_rebase(e);
	while ((index = heap_first(&e->waiting)) != VGPU_NO_VF &&
	       eevdf_is_eligible(e, &e->vfs[index])) {
		heap_remove(&e->waiting, index);
		heap_insert(&e->ready, index, e->vfs[index].deadline);
	}
	/* V may have gone back since, when a VF that was owed service left. */
	while ((index = heap_first(&e->ready)) != VGPU_NO_VF &&
	       !eevdf_is_eligible(e, &e->vfs[index])) {
		heap_remove(&e->ready, index);
		heap_insert(&e->waiting, index, eevdf_eligible_at(e, &e->vfs[index]));
	}
	/* Nobody ready, but somebody waiting: only by rounding, the mean is never below the least.
	 */
	return index != VGPU_NO_VF ? index : heap_first(&e->waiting);
}

/* Takes INDEX out to be run; returns how long its request still is. eevdf_account puts it back. */
static inline vgpu_nsec eevdf_take(struct eevdf *e, uint32_t index)
{
	const struct eevdf_vf *vf = &e->vfs[index];

	eevdf_dequeue(e, index);
	e->current = index;
	return (vgpu_nsec)((__int128)(vf->deadline - vf->v) * vf->weight >> EEVDF_SHIFT);
}

static inline void eevdf_run(struct eevdf *e, vgpu_nsec now)
{
	e->running = true;
	e->run_since = now;
	e->run_counted = 0;
}

/* CHARGE: what the dispatch of the current VF costs it, of which GRANTED was foreseen. */
static inline void eevdf_account(struct eevdf *e, vgpu_nsec charge, vgpu_nsec granted)
{
	struct eevdf_vf *vf = &e->vfs[e->current];
	int64_t beyond = (int64_t)charge - (int64_t)granted;

	eevdf_charge(e, vf, (int64_t)charge - (e->running ? e->run_counted : 0));
	if (beyond > e->worst)
		e->worst = beyond;
	eevdf_renew(e, vf);
	eevdf_queue(e, e->current);
	e->running = false;
	e->current = VGPU_NO_VF;
}

static inline void eevdf_import_lag(struct eevdf *e, uint32_t index, int64_t lag)
{
	struct eevdf_vf *vf = &e->vfs[index];

	vf->lag = lag > e->lag_cap ? e->lag_cap : lag < -e->lag_cap ? -e->lag_cap : lag;
	vf->v = eevdf_mean(e) - eevdf_distance(vf, vf->lag);
}

/*
 * |lag| stays below the longest uninterrupted service: a request (LONGEST is the longest of all
 * VFs), what eevdf_renew may add to it, and the worst overrun so far (Stoica and Abdel-Wahab,
 * theorem 1, with service in place of requests).
 */
static inline vgpu_nsec eevdf_max_lag(const struct eevdf *e, vgpu_nsec longest)
{
	longest = longest > e->longest ? longest : e->longest;
	return (longest > e->slice ? longest : e->slice) + e->facts->min_slice_ns +
	       (vgpu_nsec)e->worst;
}

#endif
