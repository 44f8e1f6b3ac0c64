/* SPDX-License-Identifier: MIT */
/*
 * fair: earliest eligible virtual deadline first (EEVDF; Stoica and Abdel-Wahab, TR-95-22), the
 * default. Each VF has a virtual time v, its service over its weight; V is the weighted mean of
 * all v. A VF is owed service while v <= V: then it is eligible. Among the eligible the one whose
 * current request would be due first runs, until the request is served. A VF that asks for short
 * requests (latency slice) is served sooner, not more.
 *
 * Deadlines lie on a grid of requests: what was used beyond a request is taken out of the next
 * one, so a late preemption costs the late VF, at once and in full.
 *
 * Sums are kept exactly: v in units of 2^-20 ns per weight with its remainder carried, V as a sum
 * of 128 bits. Two heaps, one of those that wait for V (by v) and one of the eligible (by
 * deadline), make a decision O(log n).
 */
#include "vgpu/policy.h"

enum { P_SLICE, P_LAG_CAP };
enum { V_WEIGHT, V_LATENCY_SLICE };

#define V_SHIFT 20
#define REBASE (INT64_C(1) << 44)

enum where { NOWHERE = 0, READY, WAITING };

struct entry {
	uint64_t key;
	uint32_t vf;
};

struct heap {
	struct entry *entries;
	uint32_t n;
};

struct vf {
	bool admitted, awake;
	uint8_t where; /* enum where */
	uint32_t at;   /* index in that heap */
	uint32_t weight;
	vgpu_nsec request; /* 0: the policy's slice */
	uint64_t v, deadline;
	uint64_t rest; /* of v: service << V_SHIFT modulo weight */
	int64_t lag;   /* while it does not compete: what it is owed */
};

struct fair {
	const struct vgpu_facts *facts;
	vgpu_nsec slice;
	int64_t lag_cap; /* in slices */
	uint32_t current;
	bool running;
	vgpu_nsec run_since; /* up to here the current VF's v is right */
	int64_t run_counted; /* of its dispatch */
	uint64_t base;
	uint64_t weights; /* of those that compete */
	__int128 sum;	  /* of weight * (v - base) + rest, over those that compete */
	int64_t worst;	  /* most that was charged beyond a grant */
	struct heap ready, waiting;
	struct vf vfs[];
};

static const struct vgpu_param params[] = {
	[P_SLICE] = {"slice_us", "us", "length of a request", VGPU_PARAM_INT, 500, 500000, 4000,
		     NULL},
	[P_LAG_CAP] = {"lag_cap", "slices", "the most that a sleeping VF goes on owing",
		       VGPU_PARAM_INT, 1, 1000, 10, NULL},
	{.name = NULL},
};

static const struct vgpu_param vf_params[] = {
	[V_WEIGHT] = {"weight", "", "share, relative to the other VFs' weights", VGPU_PARAM_INT, 1,
		      10000, 100, NULL},
	[V_LATENCY_SLICE] =
		{"latency_slice_us", "us",
		 "length of this VF's requests: shorter is sooner, not more; 0: slice_us",
		 VGPU_PARAM_INT, 0, 500000, 0, NULL},
	{.name = NULL},
};

static uint64_t scaled(uint64_t ns, uint32_t weight)
{
	return (ns << V_SHIFT) / weight;
}

/*
 * The v at which a VF becomes eligible again: it may be ahead by the shortest slice. Without that
 * slack an early preemption of one VF, by microseconds, makes all others ineligible, and the order
 * of turns would follow the noise.
 */
static uint64_t eligible_at(const struct fair *f, const struct vf *vf)
{
	return vf->v - scaled(f->facts->min_slice_ns, vf->weight);
}

static bool is_eligible(const struct fair *f, const struct vf *vf)
{
	return (__int128)(int64_t)(eligible_at(f, vf) - f->base) * (__int128)f->weights <= f->sum;
}

static bool before(const struct entry *a, const struct entry *b)
{
	int64_t d = (int64_t)(a->key - b->key);

	return d < 0 || (d == 0 && a->vf < b->vf);
}

static void place(struct fair *f, struct heap *h, uint32_t at, struct entry e)
{
	h->entries[at] = e;
	f->vfs[e.vf].at = at;
}

static void sift_up(struct fair *f, struct heap *h, uint32_t at, struct entry e)
{
	uint32_t parent;

	while (at > 0) {
		parent = (at - 1) / 4;
		if (!before(&e, &h->entries[parent]))
			break;
		place(f, h, at, h->entries[parent]);
		at = parent;
	}
	place(f, h, at, e);
}

static void sift_down(struct fair *f, struct heap *h, uint32_t at, struct entry e)
{
	uint32_t child, i, end;

	while (4 * at + 1 < h->n) {
		child = 4 * at + 1;
		end = child + 4 < h->n ? child + 4 : h->n;
		for (i = child + 1; i < end; i++)
			if (before(&h->entries[i], &h->entries[child]))
				child = i;
		if (!before(&h->entries[child], &e))
			break;
		place(f, h, at, h->entries[child]);
		at = child;
	}
	place(f, h, at, e);
}

static struct heap *heap_of(struct fair *f, enum where where)
{
	return where == READY ? &f->ready : &f->waiting;
}

static void heap_insert(struct fair *f, enum where where, uint32_t index)
{
	struct heap *h = heap_of(f, where);
	struct vf *vf = &f->vfs[index];
	struct entry e = {where == READY ? vf->deadline : eligible_at(f, vf), index};

	vf->where = (uint8_t)where;
	sift_up(f, h, h->n++, e);
}

static void heap_remove(struct fair *f, uint32_t index)
{
	struct vf *vf = &f->vfs[index];
	struct heap *h = heap_of(f, (enum where)vf->where);
	uint32_t at = vf->at;
	struct entry last;

	if (vf->where == NOWHERE)
		return;
	vf->where = NOWHERE;
	last = h->entries[--h->n];
	if (last.vf == index)
		return;
	if (at > 0 && before(&last, &h->entries[(at - 1) / 4]))
		sift_up(f, h, at, last);
	else
		sift_down(f, h, at, last);
}

static uint64_t mean(const struct fair *f)
{
	return f->weights ? f->base + (uint64_t)(f->sum / (__int128)f->weights) : f->base;
}

static void rebase(struct fair *f)
{
	uint64_t to = mean(f);
	int64_t by = (int64_t)(to - f->base);

	if (by < REBASE && by > -REBASE)
		return;
	f->sum -= (__int128)f->weights * by;
	f->base = to;
}

/* What a distance in virtual time is in service, for a VF. */
static int64_t service_of(const struct vf *vf, uint64_t distance)
{
	return (int64_t)((__int128)(int64_t)distance * vf->weight >> V_SHIFT);
}

static uint64_t distance_of(const struct vf *vf, int64_t service)
{
	return (uint64_t)(int64_t)((__int128)service * (1 << V_SHIFT) / vf->weight);
}

/*
 * A VF that sleeps keeps what it is owed. What it owes it pays off as V moves on, as if it still
 * competed and did not run (Linux: deferred dequeue); it cannot sleep a debt away any faster.
 */
static int64_t lag_of(const struct fair *f, const struct vf *vf)
{
	int64_t lag = service_of(vf, mean(f) - vf->v);

	if (vf->awake || vf->lag < 0)
		return vf->awake || lag < 0 ? lag : 0;
	return vf->lag;
}

static vgpu_nsec request_of(const struct fair *f, const struct vf *vf)
{
	return vf->request ? vf->request : f->slice;
}

/* Moves the deadline on, by whole requests, until it leaves room for a slice worth a switch. */
static void renew_deadline(const struct fair *f, struct vf *vf)
{
	uint64_t least = scaled(f->facts->min_slice_ns, vf->weight);
	uint64_t request = scaled(request_of(f, vf), vf->weight);
	int64_t missing = (int64_t)(vf->v + least - vf->deadline);

	if (missing > 0)
		vf->deadline += ((uint64_t)missing + request - 1) / request * request;
}

static void join(struct fair *f, struct vf *vf, int64_t lag)
{
	int64_t behind = (int64_t)distance_of(vf, lag);

	/* Its coming moves V towards it; placed this far away, its lag is what it was. */
	if (f->weights)
		behind = (int64_t)((__int128)behind * (__int128)(f->weights + vf->weight) /
				   (__int128)f->weights);
	vf->v = mean(f) - (uint64_t)behind;
	vf->rest = 0;
	vf->deadline = vf->v + scaled(request_of(f, vf), vf->weight);
	f->weights += vf->weight;
	f->sum += (__int128)(int64_t)(vf->v - f->base) * vf->weight;
}

static void leave(struct fair *f, struct vf *vf)
{
	int64_t floor = -f->lag_cap * (int64_t)f->slice, ceiling = (int64_t)request_of(f, vf);
	int64_t lag = service_of(vf, mean(f) - vf->v);

	vf->lag = lag < floor ? floor : lag > ceiling ? ceiling : lag;
	f->sum -= (__int128)(int64_t)(vf->v - f->base) * vf->weight + (__int128)vf->rest;
	f->weights -= vf->weight;
	if (f->weights == 0)
		f->sum = 0;
	vf->v = mean(f) - distance_of(vf, vf->lag);
}

static void charge(struct fair *f, struct vf *vf, int64_t ns)
{
	__int128 service = (__int128)ns * (1 << V_SHIFT), total = service + (__int128)vf->rest;
	__int128 whole = total / vf->weight;

	if (whole * vf->weight > total)
		whole--;
	vf->v += (uint64_t)(int64_t)whole;
	vf->rest = (uint64_t)(total - whole * vf->weight);
	f->sum += service;
}

/* Brings the v of the VF that runs up to date, so that V is right in the middle of a slice. */
static void update_current(struct fair *f, vgpu_nsec now)
{
	int64_t more;

	if (!f->running || now <= f->run_since)
		return;
	more = (int64_t)(now - f->run_since);
	charge(f, &f->vfs[f->current], more);
	f->run_counted += more;
	f->run_since = now;
}

static void queue(struct fair *f, uint32_t index)
{
	heap_insert(f, is_eligible(f, &f->vfs[index]) ? READY : WAITING, index);
}

static size_t memory(uint32_t max_vfs)
{
	return sizeof(struct fair) + max_vfs * (sizeof(struct vf) + 2 * sizeof(struct entry));
}

static void set_params(void *state, const int64_t *values, vgpu_nsec now)
{
	struct fair *f = state;

	(void)now;
	f->slice = (vgpu_nsec)values[P_SLICE] * VGPU_USEC;
	f->lag_cap = values[P_LAG_CAP];
}

static void attach(void *state, const struct vgpu_facts *facts, const int64_t *values)
{
	struct fair *f = state;

	f->facts = facts;
	f->current = VGPU_NO_VF;
	f->ready.entries = (struct entry *)&f->vfs[facts->max_vfs];
	f->waiting.entries = f->ready.entries + facts->max_vfs;
	set_params(state, values, 0);
}

static bool set_vf(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		   const char **why)
{
	struct fair *f = state;
	struct vf *vf = &f->vfs[index];
	bool queued = vf->where != NOWHERE;

	(void)why;
	update_current(f, now);
	heap_remove(f, index);
	if (vf->awake)
		leave(f, vf);
	else if (vf->weight)
		vf->lag = lag_of(f, vf);
	vf->weight = (uint32_t)values[V_WEIGHT];
	vf->request = (vgpu_nsec)values[V_LATENCY_SLICE] * VGPU_USEC;
	if (vf->request && vf->request < f->facts->min_slice_ns)
		vf->request = f->facts->min_slice_ns;
	vf->v = mean(f) - distance_of(vf, vf->lag);
	if (vf->awake) {
		join(f, vf, vf->lag);
		if (queued)
			queue(f, index);
	}
	return true;
}

static bool admit(void *state, uint32_t index, const int64_t *values, vgpu_nsec now,
		  const char **why)
{
	struct fair *f = state;

	f->vfs[index].admitted = true;
	return set_vf(state, index, values, now, why);
}

static void online(void *state, uint32_t index, vgpu_nsec now)
{
	(void)state;
	(void)index;
	(void)now;
}

static bool wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct fair *f = state;
	struct vf *vf = &f->vfs[index];
	uint64_t margin;

	update_current(f, now);
	join(f, vf, lag_of(f, vf));
	vf->awake = true;
	queue(f, index);
	if (!f->running)
		return true;
	/* Worth a switch only if it is due sooner by more than the switch. */
	margin = scaled(f->facts->switch_ns, vf->weight);
	return is_eligible(f, vf) &&
	       (int64_t)(vf->deadline + margin - f->vfs[f->current].deadline) < 0;
}

static void sleep_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct fair *f = state;
	struct vf *vf = &f->vfs[index];

	update_current(f, now);
	heap_remove(f, index);
	leave(f, vf);
	vf->awake = false;
}

static void remove_vf(void *state, uint32_t index, vgpu_nsec now)
{
	struct fair *f = state;

	if (f->vfs[index].awake)
		sleep_vf(state, index, now);
	f->vfs[index].admitted = false;
	f->vfs[index].lag = 0;
}

static void pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct fair *f = state;
	struct vf *vf;
	uint32_t index;

	(void)now;
	rebase(f);
	while (f->waiting.n && is_eligible(f, &f->vfs[f->waiting.entries[0].vf])) {
		index = f->waiting.entries[0].vf;
		heap_remove(f, index);
		heap_insert(f, READY, index);
	}
	/* V may have gone back since, when a VF that was owed service left. */
	while (f->ready.n && !is_eligible(f, &f->vfs[f->ready.entries[0].vf])) {
		index = f->ready.entries[0].vf;
		heap_remove(f, index);
		heap_insert(f, WAITING, index);
	}
	if (f->ready.n)
		index = f->ready.entries[0].vf;
	else if (f->waiting.n) /* only by rounding: the mean is never below the least */
		index = f->waiting.entries[0].vf;
	else
		return;
	heap_remove(f, index);
	vf = &f->vfs[index];
	f->current = index;
	out->vf = index;
	out->slice = (vgpu_nsec)((__int128)(vf->deadline - vf->v) * vf->weight >> V_SHIFT);
}

static void run(void *state, uint32_t index, vgpu_nsec now)
{
	struct fair *f = state;

	(void)index;
	f->running = true;
	f->run_since = now;
	f->run_counted = 0;
}

static void account(void *state, const struct vgpu_usage *usage)
{
	struct fair *f = state;
	struct vf *vf = &f->vfs[usage->vf];
	int64_t beyond = (int64_t)usage->charge - (int64_t)usage->granted;

	charge(f, vf, (int64_t)usage->charge - (f->running ? f->run_counted : 0));
	f->running = false;
	f->current = VGPU_NO_VF;
	if (beyond > f->worst)
		f->worst = beyond;
	renew_deadline(f, vf);
	queue(f, usage->vf);
}

static int64_t export_lag(void *state, uint32_t index)
{
	struct fair *f = state;

	return lag_of(f, &f->vfs[index]);
}

static void import_lag(void *state, uint32_t index, int64_t lag)
{
	struct fair *f = state;
	struct vf *vf = &f->vfs[index];
	int64_t most = f->lag_cap * (int64_t)f->slice;

	vf->lag = lag > most ? most : lag < -most ? -most : lag;
	vf->v = mean(f) - distance_of(vf, vf->lag);
}

static void share(void *state, uint32_t index, uint64_t *numerator, uint64_t *denominator)
{
	struct fair *f = state;
	uint32_t i;

	*numerator = f->vfs[index].weight;
	*denominator = 0;
	for (i = 0; i < f->facts->max_vfs; i++)
		if (f->vfs[i].admitted)
			*denominator += f->vfs[i].weight;
}

/*
 * |lag| stays below the longest uninterrupted service: a request, what renew_deadline may add to
 * it, and the worst overrun so far (Stoica and Abdel-Wahab, theorem 1, with service in place of
 * requests). A VF waits until V has passed its v and all earlier deadlines are served.
 */
static void bound(void *state, uint32_t index, struct vgpu_bound *out)
{
	struct fair *f = state;
	uint64_t longest = f->slice, weights = 0, n = 0;
	uint32_t i;

	for (i = 0; i < f->facts->max_vfs; i++) {
		if (!f->vfs[i].admitted)
			continue;
		n++;
		weights += f->vfs[i].weight;
		if (f->vfs[i].request > longest)
			longest = f->vfs[i].request;
	}
	out->max_lag = longest + f->facts->min_slice_ns + (uint64_t)f->worst;
	out->max_wait = (3 * out->max_lag) * weights / f->vfs[index].weight +
			n * (2 * f->facts->switch_ns + (uint64_t)f->worst);
}

const struct vgpu_policy_ops POLICY_ENTRY = {
	.size = sizeof(struct vgpu_policy_ops),
	.abi_major = VGPU_POLICY_ABI_MAJOR,
	.abi_minor = VGPU_POLICY_ABI_MINOR,
	.name = "fair",
	.help = "shares by weight, latency by request length (EEVDF)",
	.promises = VGPU_PROMISE_WORK_CONSERVING | VGPU_PROMISE_PROPORTIONAL |
		    VGPU_PROMISE_NO_STARVATION,
	.params = params,
	.vf_params = vf_params,
	.memory = memory,
	.attach = attach,
	.set_params = set_params,
	.admit = admit,
	.set_vf = set_vf,
	.remove = remove_vf,
	.online = online,
	.offline = online,
	.wake = wake,
	.sleep = sleep_vf,
	.pick = pick,
	.run = run,
	.account = account,
	.export_lag = export_lag,
	.import_lag = import_lag,
	.share = share,
	.bound = bound,
};
