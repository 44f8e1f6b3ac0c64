/* SPDX-License-Identifier: MIT */
/* What the ring knows: its members, their slots and debts, the slot that is open, the last pick. */
#ifndef POLICIES_RING_STATE_H
#define POLICIES_RING_STATE_H

#include "auto_slice.h"
#include "set.h"

/* A VF is owed no more than this many turns, and is paid back no more than one in each slot. */
#define RING_CREDIT_TURNS 16

enum ring_idle {
	RING_HOLD = 0,	   /* the slot of a VF without work is left empty */
	RING_DONATE = 1,   /* ... is used by others, until its owner wakes */
	RING_COMPRESS = 2, /* ... is left out */
};

struct ring_vf {
	bool admitted, online, awake;
	bool served; /* it has had a turn since it came or woke */
	int64_t slots, next_slots, most_slots;
	int64_t debt;
	int64_t moved;	 /* how much later its overruns have made the grid, not yet settled */
	int64_t worst;	 /* the largest |debt| so far */
	int64_t deepest; /* the largest debt so far */
	int64_t over;	 /* the longest time beyond an end of a slice so far */
	int64_t late;	 /* the longest time between a planned start and the start so far */
	int64_t since;	 /* the ring's `done` at the end of its last turn, or when it woke */
};

struct ring {
	const struct vgpu_facts *facts;
	struct auto_slice length;
	vgpu_nsec slice, longest_slice, shortest_slice;
	vgpu_nsec room; /* between two slots, for the world switch; 0: as measured */
	int64_t factor; /* F */
	enum ring_idle idle;
	bool all_members; /* configured VFs have turns, whether or not their driver is up */
	bool at_rest;	  /* parked because nobody has work */
	bool changed;	  /* parameters, since the round began */
	struct set members, awake;
	int64_t member_slots, awake_slots;
	int64_t done; /* service so far */

	uint32_t first; /* who begins: the VF that is owed most */
	int64_t first_lag;

	/* The slot that lasts until slot_end, and the turn of its owner */
	uint32_t owner;
	vgpu_nsec plan; /* when the owner was to start */
	vgpu_nsec slot_end;
	bool open;    /* the turn is not yet settled */
	bool gave_up; /* the owner had no work at some instant of the slot */
	int64_t due, had, ran;

	/* The last pick */
	vgpu_nsec expected; /* when it was to run, or the parking to end; 0: no matter when */
	int64_t offered;
	bool in_parts; /* what was offered is not all of a turn, which is longer than a slice, or
			* was interrupted */
	bool extended;
	struct ring_vf vfs[];
};

static size_t ring_memory(uint32_t max_vfs)
{
	return sizeof(struct ring) + max_vfs * sizeof(struct ring_vf) + 2 * set_memory(max_vfs);
}

static void ring_attach(struct ring *r, const struct vgpu_facts *facts)
{
	void *rest = &r->vfs[facts->max_vfs];

	r->facts = facts;
	r->owner = VGPU_NO_VF;
	r->first = VGPU_NO_VF;
	rest = set_init(&r->members, rest, facts->max_vfs);
	set_init(&r->awake, rest, facts->max_vfs);
}

static vgpu_nsec ring_switch(const struct ring *r)
{
	return r->room ? r->room : r->facts->switch_ns;
}

static int64_t ring_turn(const struct ring *r, const struct ring_vf *vf)
{
	return vf->slots * (int64_t)r->slice;
}

static int64_t ring_longest(const struct ring *r, const struct ring_vf *vf)
{
	return vf->most_slots * (int64_t)r->longest_slice;
}

static int64_t ring_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Turns follow the slice, which may follow the measured world switch. */
static void ring_update(struct ring *r)
{
	r->slice = auto_slice(&r->length, r->facts, (uint32_t)r->member_slots);
	if (r->slice > r->longest_slice)
		r->longest_slice = r->slice;
	if (r->shortest_slice == 0 || r->slice < r->shortest_slice)
		r->shortest_slice = r->slice;
}

/* Membership, and slots: all sums follow. */
static void ring_join(struct ring *r, uint32_t vf)
{
	if (set_has(&r->members, vf))
		return;
	set_add(&r->members, vf);
	r->member_slots += r->vfs[vf].slots;
}

static void ring_leave(struct ring *r, uint32_t vf)
{
	if (!set_has(&r->members, vf))
		return;
	set_remove(&r->members, vf);
	r->member_slots -= r->vfs[vf].slots;
}

/* VF has the slots that it was given last. */
static void ring_take_slots(struct ring *r, uint32_t index)
{
	struct ring_vf *vf = &r->vfs[index];
	int64_t more = vf->next_slots - vf->slots;

	if (set_has(&r->members, index))
		r->member_slots += more;
	if (vf->awake)
		r->awake_slots += more;
	vf->slots = vf->next_slots;
}

/* All turns of a round are of one measure; with new parameters bounds begin anew. */
static void ring_begin_round(struct ring *r)
{
	uint32_t i;

	for (i = 0; r->changed && i < r->facts->max_vfs; i++) {
		ring_take_slots(r, i);
		r->vfs[i].most_slots = r->vfs[i].slots;
	}
	if (r->changed) {
		r->longest_slice = 0;
		r->shortest_slice = 0;
	}
	r->changed = false;
	ring_update(r);
}

/* Whether there is no round that has to be finished as it began. */
static bool ring_is_between_rounds(const struct ring *r)
{
	return r->owner == VGPU_NO_VF || r->at_rest;
}

/* New parameters: where a round is under way, turns follow with the next one. */
static void ring_change(struct ring *r)
{
	r->changed = true;
	if (ring_is_between_rounds(r))
		ring_begin_round(r);
}

static void ring_set_slots(struct ring *r, uint32_t index, int64_t slots)
{
	struct ring_vf *vf = &r->vfs[index];

	vf->next_slots = slots;
	if (!ring_is_between_rounds(r)) {
		r->changed = true;
		return;
	}
	ring_take_slots(r, index);
	vf->most_slots = ring_max(vf->most_slots, slots);
	ring_update(r);
}

#endif
