/* SPDX-License-Identifier: MIT */
/* The state of the ring: its members, their slots and debts, the open slot, the last pick. */
#pragma once

#include "auto_slice.h"
#include "set.h"

/* A VF is owed at most this many turns, and is paid back at most one of them in each slot. */
#define RING_CREDIT_TURNS 16

enum ring_idle {
	RING_HOLD = 0,	   /* the slot of a VF without work stays empty */
	RING_DONATE = 1,   /* other VFs use it, until its owner wakes */
	RING_COMPRESS = 2, /* the slot of a VF without work is left out */
};

struct ring_vf {
	bool admitted, online, awake;
	bool served; /* it has had a turn since it was admitted or woke */
	int64_t slots, next_slots, most_slots;
	int64_t debt;
	int64_t moved;	 /* by how much its overruns have moved the grid and are not settled yet,
			  * ns */
	int64_t worst;	 /* the largest |debt| so far, ns */
	int64_t deepest; /* the largest debt so far, ns */
	int64_t over;	 /* how late it has stopped after a slice at most, ns */
	int64_t late;	 /* how late it has started after its planned start at most, ns */
	int64_t since;	 /* the ring's `done` at the end of its last turn, or when it woke */
	int64_t lag;	 /* lag under the previous policy, until the first turn begins, ns */
};

struct ring {
	const struct vgpu_facts *facts;
	struct auto_slice length;
	vgpu_nsec slice, longest_slice, shortest_slice;
	vgpu_nsec room; /* time between two slots for the world switch, ns; 0: the measured time */
	int64_t factor; /* F */
	enum ring_idle idle;
	bool all_members; /* configured VFs have turns, whether or not their driver is up */
	bool at_rest;	  /* parked because no VF has work */
	bool changed;	  /* parameters have changed since the round began */
	bool new_shares;  /* a change of shares has come into force since the last pick */
	struct set members, awake;
	int64_t member_slots, awake_slots;
	int64_t done; /* service of all VFs so far, ns */

	uint32_t first;	 /* the VF that begins: the one that is owed most */
	bool takes_over; /* lags have been imported from the previous policy */

	/* The open slot, until slot_end, and its owner's turn */
	uint32_t owner;
	vgpu_nsec plan; /* when the owner was to start */
	vgpu_nsec slot_end;
	vgpu_nsec behind; /* for how long the grid stood still, ns; at most a window of each VF */
	bool open;	  /* the turn is not settled yet */
	bool gave_up;	  /* the owner had no work at some instant of the slot */
	int64_t due, had, ran;

	/* The last pick */
	vgpu_nsec expected; /* when the picked VF was to start, or parking to end; 0: not planned */
	int64_t offered;
	bool in_parts; /* the turn is longer than a slice, or was interrupted: only a part was
			  offered */
	bool extended;
	vgpu_nsec beside; /* since when another VF has work, too; VGPU_NEVER: no other has */
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
	r->beside = VGPU_NEVER;
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

/* Updates the slice, which with slice = auto follows the measured world switch. */
static void ring_update(struct ring *r)
{
	r->slice = auto_slice(&r->length, r->facts, (uint32_t)r->member_slots);
	if (r->slice > r->longest_slice)
		r->longest_slice = r->slice;
	if (r->shortest_slice == 0 || r->slice < r->shortest_slice)
		r->shortest_slice = r->slice;
}

/* Makes VF a member, with its slots, and updates all sums. */
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

/* Applies the number of slots that was configured last for VF. */
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

/* Begins a round. Changed parameters apply from here on, so that all turns of a round have one
 * measure; bounds begin anew. */
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
	r->new_shares |= r->changed;
	r->changed = false;
	ring_update(r);
}

/* Returns whether new parameters may apply at once, because no round is under way. */
static bool ring_is_between_rounds(const struct ring *r)
{
	return r->owner == VGPU_NO_VF || r->at_rest;
}

/* Applies new parameters: at once, or with the next round if one is under way. */
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
