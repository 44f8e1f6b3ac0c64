/* SPDX-License-Identifier: MIT */
/*
 * The ring behind `strict` and `equal`: VFs take turns in the order of their numbers, each turn as
 * long as its slots. A turn that ran long, or was ended early by an over-careful preemption, is
 * settled in the VF's own next turn, both ways:
 *
 *     granted = turn - debt / F        debt' = debt - debt / F + charged - granted
 *
 * so that over any number of rounds each VF has had rounds * turn + debt. With F = 1 |debt| is one
 * error, not a sum of errors; a larger F (NVIDIA's averaging factor) keeps turns even, and lets
 * the debt of a VF that always errs grow to F errors. A debt of more than a turn costs whole turns.
 *
 * Boundaries lie on a grid, start + sum(switch + turn) + sum(overruns not yet settled): nothing
 * accumulates. A start is never earlier than planned, so where VFs stop in time, none can tell from
 * its own starts what the others do.
 */
#ifndef POLICIES_RING_H
#define POLICIES_RING_H

#include "auto_slice.h"

enum ring_idle {
	RING_HOLD = 0,	   /* the slot of a VF without work is left empty */
	RING_DONATE = 1,   /* ... is used by others, until its owner wakes */
	RING_COMPRESS = 2, /* ... is left out */
};

struct ring_vf {
	bool admitted, online, awake;
	int64_t slots, turn, debt;
	int64_t moved; /* how much later its overruns have made the grid, not yet settled */
	int64_t longest, worst; /* the longest turn and the largest |debt| so far */
};

struct ring {
	const struct vgpu_facts *facts;
	struct auto_slice length;
	vgpu_nsec slice;
	vgpu_nsec room; /* between two slots, for the world switch; 0: as measured */
	int64_t factor; /* F */
	enum ring_idle idle;
	bool all_members; /* configured VFs have turns, whether or not their driver is up */
	bool at_rest;	  /* parked because nobody has work */
	uint32_t owner;	  /* of the slot that lasts until slot_end */
	vgpu_nsec plan;	  /* when the owner was to start */
	vgpu_nsec slot_end;
	int64_t left;	 /* of the owner's turn in this slot */
	int64_t offered; /* the slice of the last pick */
	bool in_parts;	 /* which is not all of a turn, for that is longer than a slice may be */
	struct ring_vf vfs[];
};

static size_t ring_memory(uint32_t max_vfs)
{
	return sizeof(struct ring) + max_vfs * sizeof(struct ring_vf);
}

static vgpu_nsec ring_switch(const struct ring *r)
{
	return r->room ? r->room : r->facts->switch_ns;
}

static bool ring_is_member(const struct ring *r, const struct ring_vf *vf)
{
	return r->all_members ? vf->admitted : vf->online;
}

static uint32_t ring_slots(const struct ring *r)
{
	uint32_t i, n = 0;

	for (i = 0; i < r->facts->max_vfs; i++)
		if (ring_is_member(r, &r->vfs[i]))
			n += (uint32_t)r->vfs[i].slots;
	return n;
}

/* Turns follow the slice, which may follow the measured world switch. */
static void ring_update(struct ring *r)
{
	uint32_t i;

	r->slice = auto_slice(&r->length, r->facts, r->length.fixed ? 0 : ring_slots(r));
	for (i = 0; i < r->facts->max_vfs; i++) {
		struct ring_vf *vf = &r->vfs[i];

		vf->turn = vf->slots * (int64_t)r->slice;
		vf->longest = vf->turn > vf->longest ? vf->turn : vf->longest;
	}
}

/* New parameters: bounds begin anew. */
static void ring_forget_longest(struct ring *r)
{
	uint32_t i;

	for (i = 0; i < r->facts->max_vfs; i++)
		r->vfs[i].longest = 0;
}

static uint32_t ring_next(const struct ring *r, uint32_t from, bool awake)
{
	uint32_t n = r->facts->max_vfs, i, vf;

	for (i = 1; i <= n; i++) {
		vf = from == VGPU_NO_VF ? i - 1 : (from + i) % n;
		if (ring_is_member(r, &r->vfs[vf]) && (!awake || r->vfs[vf].awake))
			return vf;
	}
	return VGPU_NO_VF;
}

/* The grid goes on while nobody has work: finds the slot that NOW lies in. */
static void ring_catch_up(struct ring *r, vgpu_nsec now)
{
	vgpu_nsec round = 0, rounds;
	uint32_t i;

	for (i = 0; i < r->facts->max_vfs; i++)
		if (ring_is_member(r, &r->vfs[i]))
			round += (vgpu_nsec)r->vfs[i].turn + ring_switch(r);
	if (round == 0 || now < r->slot_end)
		return;
	rounds = (now - r->slot_end) / round;
	r->slot_end += rounds * round;
	for (i = 0; i < r->facts->max_vfs; i++) {
		struct ring_vf *vf = &r->vfs[i];

		vf->debt -= (int64_t)rounds * vf->turn;
		if (vf->debt < 0)
			vf->debt = 0;
		vf->moved = 0; /* the grid starts from here */
	}
}

/* What a VF's next slot is to settle of its debt, away from zero, so that all of it is some day. */
static int64_t ring_instalment(const struct ring *r, const struct ring_vf *vf)
{
	int64_t up = vf->debt > 0 ? r->factor - 1 : 1 - r->factor;

	return (vf->debt + up) / r->factor;
}

static void ring_owe(struct ring_vf *vf, int64_t more)
{
	int64_t size;

	vf->debt += more;
	if (vf->debt < -vf->turn)
		vf->debt = -vf->turn;
	size = vf->debt < 0 ? -vf->debt : vf->debt;
	vf->worst = size > vf->worst ? size : vf->worst;
}

/*
 * VF settles PAID by a shorter or longer turn. As far as that is for an overrun the grid moves
 * back; what it pays for a slow switch stays empty, for the slot had room for the switch.
 */
static int64_t ring_settle(struct ring_vf *vf, int64_t paid)
{
	int64_t back = paid > 0 ? (vf->moved > 0 ? vf->moved : 0) : (vf->moved < 0 ? vf->moved : 0);

	if (paid > 0 ? back > paid : back < paid)
		back = paid;
	vf->moved -= back;
	ring_owe(vf, -paid);
	return back;
}

/* Opens the next slot. */
static void ring_advance(struct ring *r, vgpu_nsec now)
{
	vgpu_nsec start = r->slot_end;
	int64_t least = (int64_t)r->facts->min_slice_ns, paid;
	uint32_t before = r->owner;
	struct ring_vf *vf;

	/* After a window, a reset or a pause the grid begins anew. Lateness that debts explain is
	 * in slot_end already; that of a slow switch is made up for. */
	if (r->idle == RING_COMPRESS || now > start + ring_switch(r))
		start = now;
	for (;;) {
		r->owner = ring_next(r, r->owner, r->idle == RING_COMPRESS);
		if (r->owner == VGPU_NO_VF)
			return;
		/* All turns of a round are of one measure. */
		if (!r->length.fixed && (before == VGPU_NO_VF || r->owner <= before))
			ring_update(r);
		before = r->owner;
		vf = &r->vfs[r->owner];
		paid = ring_instalment(r, vf);
		if (vf->turn - paid >= least)
			break;
		if (vf->debt < vf->turn) { /* as much as leaves the shortest slice */
			paid = vf->turn > least ? vf->turn - least : 0;
			break;
		}
		/* It has had this turn already. */
		ring_settle(vf, vf->turn);
	}
	r->plan = start + ring_switch(r);
	r->slot_end = r->plan + (vgpu_nsec)(vf->turn - ring_settle(vf, paid));
	r->left = vf->turn - paid;
	/* A turn may be longer than a slice: then it is had in parts, with room between them. */
	if (r->left > (int64_t)r->facts->max_slice_ns)
		r->slot_end += (vgpu_nsec)(r->left - 1) / r->facts->max_slice_ns * ring_switch(r);
}

/* Whether VF owns the slot, and has had its turn. */
static bool ring_is_over(const struct ring *r, uint32_t vf)
{
	return vf == r->owner && r->left < (int64_t)r->facts->min_slice_ns;
}

/* Whether its owner has had a part of its turn only. */
static bool ring_goes_on(const struct ring *r)
{
	return r->in_parts && r->vfs[r->owner].awake && !ring_is_over(r, r->owner);
}

/* FRESH: the slot has just been opened, so that it is not VF's doing if it starts late. */
static void ring_grant(const struct ring *r, struct vgpu_pick *out, uint32_t vf, bool fresh,
		       vgpu_nsec now)
{
	vgpu_nsec start = now + ring_switch(r);

	out->vf = vf;
	out->slice = (vgpu_nsec)r->left;
	if (r->idle == RING_COMPRESS)
		return;
	if (vf == r->owner && (fresh || start <= r->plan)) {
		/* On time, or not late by its own doing: the whole turn. */
		out->not_before = r->plan;
	} else if (vf != r->owner || start + out->slice > r->slot_end) {
		out->slice = r->slot_end > start ? r->slot_end - start : 1;
	}
	if (vf != r->owner)
		out->flags = VGPU_PICK_DONATED;
	else if (r->idle == RING_HOLD)
		out->flags = VGPU_PICK_HOLD;
}

static void ring_pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct ring *r = state;
	vgpu_nsec useful = ring_switch(r) + r->facts->min_slice_ns;
	bool fresh = false;
	uint32_t vf;

	if (ring_next(r, VGPU_NO_VF, true) == VGPU_NO_VF) {
		r->at_rest = true;
		return;
	}
	if (r->at_rest && r->idle == RING_HOLD)
		ring_catch_up(r, now);
	r->at_rest = false;
	/* What is left of a slot may be too short to be worth a switch. */
	while (r->owner == VGPU_NO_VF || (r->idle == RING_COMPRESS && !ring_goes_on(r)) ||
	       now >= r->slot_end || (r->idle == RING_DONATE && now + useful > r->slot_end)) {
		ring_advance(r, now);
		fresh = true;
		if (r->idle == RING_COMPRESS || now < r->slot_end)
			break;
	}
	vf = r->owner;
	if (!r->vfs[vf].awake && r->idle == RING_DONATE)
		vf = ring_next(r, vf, true);
	if (r->vfs[vf].awake && (r->idle == RING_COMPRESS || fresh ||
				 (now + useful <= r->slot_end && !ring_is_over(r, vf)))) {
		ring_grant(r, out, vf, fresh, now);
		r->in_parts = out->slice > r->facts->max_slice_ns;
		if (r->in_parts)
			out->slice = r->facts->max_slice_ns;
		r->offered = (int64_t)out->slice;
	} else {
		out->park_until = r->slot_end;
	}
}

static void ring_account(void *state, const struct vgpu_usage *usage)
{
	struct ring *r = state;
	struct ring_vf *vf = &r->vfs[usage->vf];
	int64_t beyond = (int64_t)usage->charge - (usage->donated ? 0 : r->offered);
	vgpu_nsec rest;

	/* What a turn is longer or shorter moves the grid, until the debt is settled. */
	if (usage->donated) {
		r->slot_end += usage->overrun;
	} else if (usage->reason == VGPU_END_SLICE || usage->reason == VGPU_END_EXCLUSIVE) {
		r->slot_end += usage->used - (vgpu_nsec)r->offered;
		vf->moved += (int64_t)usage->used - r->offered;
	}
	if (usage->vf == r->owner)
		r->left -= (int64_t)usage->used;
	rest = usage->end + ring_switch(r) + (vgpu_nsec)r->left;
	if (r->in_parts && usage->reason == VGPU_END_SLICE && r->slot_end < rest)
		r->slot_end = rest;
	/* Who gives the rest of a turn up, or loses it, is owed nothing. Time that an early
	 * preemption or a window took from it comes back, but no more than a turn. */
	if (usage->reason != VGPU_END_SLICE && usage->reason != VGPU_END_EXCLUSIVE && beyond < 0)
		beyond = 0;
	ring_owe(vf, beyond);
}

static void ring_remove(void *state, uint32_t vf, vgpu_nsec now)
{
	struct ring *r = state;

	(void)now;
	r->vfs[vf].admitted = false;
	r->vfs[vf].online = false;
	r->vfs[vf].awake = false;
}

static void ring_online(void *state, uint32_t vf, vgpu_nsec now)
{
	struct ring *r = state;

	(void)now;
	r->vfs[vf].online = true;
}

static void ring_offline(void *state, uint32_t vf, vgpu_nsec now)
{
	struct ring *r = state;

	(void)now;
	r->vfs[vf].online = false;
}

static bool ring_wake(void *state, uint32_t vf, vgpu_nsec now)
{
	struct ring *r = state;

	r->vfs[vf].awake = true;
	if (r->at_rest)
		return true;
	/* Its own slot, and it is still worth taking. */
	return r->idle != RING_COMPRESS && vf == r->owner && !ring_is_over(r, vf) &&
	       now + ring_switch(r) + r->facts->min_slice_ns <= r->slot_end;
}

static void ring_sleep(void *state, uint32_t vf, vgpu_nsec now)
{
	struct ring *r = state;

	(void)now;
	r->vfs[vf].awake = false;
}

static int64_t ring_export_lag(void *state, uint32_t vf)
{
	struct ring *r = state;

	return -r->vfs[vf].debt;
}

static void ring_import_lag(void *state, uint32_t vf, int64_t lag)
{
	struct ring *r = state;
	int64_t most = r->vfs[vf].turn;

	r->vfs[vf].debt = lag > most ? -most : -lag;
	if (-lag > r->vfs[vf].worst)
		r->vfs[vf].worst = -lag;
}

static void ring_share(void *state, uint32_t vf, uint64_t *numerator, uint64_t *denominator)
{
	struct ring *r = state;
	uint32_t i;

	*numerator = (uint64_t)r->vfs[vf].turn;
	*denominator = 0;
	for (i = 0; i < r->facts->max_vfs; i++)
		if (ring_is_member(r, &r->vfs[i]) || i == vf)
			*denominator += (uint64_t)r->vfs[i].turn;
}

/*
 * All members have had k or k + 1 turns, plus their debts; so with share f
 *   |lag| <= turn + |debt| + f * sum |debts|
 * and a VF waits for one turn of each other, and for as many rounds as its own debt costs.
 */
static void ring_bound(void *state, uint32_t vf, struct vgpu_bound *out)
{
	struct ring *r = state;
	uint64_t turns = 0, moved = 0, round = 0;
	const struct ring_vf *own = &r->vfs[vf];
	uint32_t i;

	for (i = 0; i < r->facts->max_vfs; i++) {
		const struct ring_vf *other = &r->vfs[i];

		if (!ring_is_member(r, other) && i != vf)
			continue;
		turns += (uint64_t)other->turn;
		moved += (uint64_t)(other->worst + other->longest - other->turn);
		round += (uint64_t)(other->longest + other->worst) + 2 * ring_switch(r);
	}
	out->max_lag = (uint64_t)(own->longest + own->worst) +
		       (turns ? (uint64_t)own->turn * moved / turns : 0);
	out->max_wait = round * (2 + (uint64_t)(own->worst / own->turn));
}

static const char *ring_warning(void *state)
{
	struct ring *r = state;

	return auto_slice_warning(&r->length, r->facts, ring_slots(r));
}

#define RING_FACTOR_PARAM                                                                          \
	{                                                                                          \
		"avg_factor", "turns", "an overrun is settled over so many turns; 1: in the next", \
			VGPU_PARAM_INT, 1, 60, 1, NULL                                             \
	}

/* What the policies on the ring have in common. */
#define RING_OPS                                                                                   \
	.size = sizeof(struct vgpu_policy_ops), .abi_major = VGPU_POLICY_ABI_MAJOR,                \
	.abi_minor = VGPU_POLICY_ABI_MINOR, .memory = ring_memory, .remove = ring_remove,          \
	.online = ring_online, .offline = ring_offline, .wake = ring_wake, .sleep = ring_sleep,    \
	.pick = ring_pick, .account = ring_account, .export_lag = ring_export_lag,                 \
	.import_lag = ring_import_lag, .share = ring_share, .bound = ring_bound,                   \
	.warning = ring_warning

#endif
