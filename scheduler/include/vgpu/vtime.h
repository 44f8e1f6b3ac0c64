/* SPDX-License-Identifier: MIT */
/*
 * Virtual time, as in generalized processor sharing (Parekh and Gallager, 1993) and EEVDF (Stoica
 * and Abdel-Wahab, TR-95-22). Each member has a virtual time v, its service divided by its weight.
 * V is the weighted mean of all v, so that the sum of weight * (V - v), the service that each
 * member is owed, is zero.
 *
 * Members are the VFs that have work, and those that went to sleep while they owed service. The
 * latter stay members until V has passed their v: exactly as long as the fluid server would still
 * be busy with what they were served (Linux: deferred dequeue). So V never falls because a VF
 * leaves, a VF cannot lose a debt by sleeping, and a VF that is no member has no virtual time that
 * could grow stale or wrap around. When the last member leaves, all accounts are settled.
 *
 * For policies, of this tree and of plug-ins: all of it is inline, and a policy keeps a struct
 * vtime and a struct vtime_vf of each VF in its memory. A VF must be a member while it is charged.
 *
 * Sums are exact: v is in units of 2^-20 ns per weight, with the remainder carried; V is a sum of
 * 128 bits over all members.
 */
#pragma once

#include "vgpu/types.h"

#define VTIME_SHIFT 20
#define VTIME_REBASE_SHIFT 44 /* V is far from the base if the distance exceeds 2^44 */

/* Virtual time starts a tenth of a second before it wraps around, so that every run tests the wrap
 * (as Linux does with jiffies). */
#define VTIME_BEFORE_WRAP (UINT64_C(1) << 40)

struct vtime_vf {
	bool member;
	uint32_t weight;
	uint64_t v;    /* virtual time of a member */
	uint64_t rest; /* remainder of v: service << VTIME_SHIFT modulo weight */
};

struct vtime {
	uint64_t base;
	uint64_t weights; /* sum of the members' weights */
	__int128 sum;	  /* sum of weight * (v - base) + rest over the members */
};

static inline void vtime_init(struct vtime *t)
{
	*t = (struct vtime){.base = -VTIME_BEFORE_WRAP};
}

/* Returns A / B; B is at most INT64_MAX. A mostly fits into 64 bits, and then costs half as much.
 */
static inline uint64_t vtime_divide(__int128 a, uint64_t b)
{
	if ((int64_t)a == a)
		return (uint64_t)((int64_t)a / (int64_t)b);
	return (uint64_t)(a / (__int128)b);
}

/* Returns V. */
static inline uint64_t vtime_now(const struct vtime *t)
{
	return t->weights ? t->base + vtime_divide(t->sum, t->weights) : t->base;
}

/* Convert service in ns to a distance in virtual time, and back. */
static inline uint64_t vtime_distance(int64_t service, uint32_t weight)
{
	return vtime_divide((__int128)service * (1 << VTIME_SHIFT), weight);
}

static inline int64_t vtime_service(uint64_t distance, uint32_t weight)
{
	return (int64_t)((__int128)(int64_t)distance * weight >> VTIME_SHIFT);
}

/* Returns whether V has reached AT. */
static inline bool vtime_reached(const struct vtime *t, uint64_t at)
{
	return (__int128)(int64_t)(at - t->base) * (__int128)t->weights <= t->sum;
}

/* Moves the base to V when V is far from it. */
static inline void vtime_rebase(struct vtime *t)
{
	/* |sum| is below 2^107: weights are at most 2^28, and one charge is at most 2^83. */
	int64_t weights = (int64_t)t->weights;
	uint64_t to;

	if ((int64_t)(t->sum >> VTIME_REBASE_SHIFT) < weights &&
	    (int64_t)((t->sum - 1) >> VTIME_REBASE_SHIFT) >= -weights)
		return;
	to = vtime_now(t);
	t->sum -= (__int128)t->weights * (int64_t)(to - t->base);
	t->base = to;
}

/* Makes a VF a member with virtual time V; at the present V it owes nothing and is owed nothing. */
static inline void vtime_join(struct vtime *t, struct vtime_vf *vf, uint64_t v)
{
	vf->member = true;
	vf->v = v;
	vf->rest = 0;
	t->weights += vf->weight;
	t->sum += (__int128)(int64_t)(v - t->base) * vf->weight;
}

/* Removes a member. It forfeits what it was owed: V moves on to where it would be if the fluid
 * server had found the VF out of work in time. */
static inline void vtime_leave(struct vtime *t, struct vtime_vf *vf)
{
	uint64_t last = vtime_now(t);

	vf->member = false;
	t->weights -= vf->weight;
	t->sum -= (__int128)(int64_t)(vf->v - t->base) * vf->weight + (__int128)vf->rest;
	if (t->weights)
		return;
	t->base = last;
	t->sum = 0;
}

/* Returns the service that a member is owed, in ns; negative: it owes. */
static inline int64_t vtime_lag(const struct vtime *t, const struct vtime_vf *vf)
{
	return vtime_service(vtime_now(t) - vf->v, vf->weight);
}

/* Makes the VF a member that is owed LAG, with a new weight. V does not change if the VF was owed
 * LAG before. */
static inline void vtime_place(struct vtime *t, struct vtime_vf *vf, uint32_t weight, int64_t lag)
{
	uint64_t now = vtime_now(t);

	if (vf->member)
		vtime_leave(t, vf);
	vf->weight = weight;
	vtime_join(t, vf, now - vtime_distance(lag, weight));
}

/* Charges a member for NS of service: v is rounded down and the remainder carried. Two divisions of
 * 64 bits. */
static inline void vtime_charge(struct vtime *t, struct vtime_vf *vf, int64_t ns)
{
	int64_t weight = vf->weight, whole = ns / weight, rest = ns % weight;
	uint64_t low;

	if (rest < 0) {
		whole--;
		rest += weight;
	}
	low = ((uint64_t)rest << VTIME_SHIFT) + vf->rest;
	vf->v += ((uint64_t)whole << VTIME_SHIFT) + low / vf->weight;
	vf->rest = low % vf->weight;
	t->sum += (__int128)ns * (1 << VTIME_SHIFT);
}
