/* SPDX-License-Identifier: MIT */
/*
 * The ring behind `strict` and `equal`. VFs take turns in the order of their numbers; a turn is as
 * long as the VF's slots. A turn is settled once, when it is over: what the VF was charged in it,
 * in one part or in several, is compared with what the turn was due to be. The difference is the
 * VF's debt (or credit), and changes its next turn:
 *
 *     due = turn - debt / F        debt' = debt - debt / F + had - due
 *
 * so that over any number of rounds each VF has been served rounds * turn + debt. With F = 1,
 * |debt| is one error, not a sum of errors. A larger F (NVIDIA's averaging factor) keeps turns
 * even, and lets the debt of a VF that always errs grow to F errors. A debt of more than a turn
 * costs whole turns. A VF that has no work at some instant of its slot gives up the rest of the
 * turn, and is owed nothing for it. A turn that a window or an operator interrupts continues after
 * that: if it were over, changes in step with the round would always cut the same VF. For the same
 * reason new slices and slots apply from the next round on.
 *
 * Boundaries lie on a grid, start + sum(switch + turn) + sum(overruns not yet settled): nothing
 * accumulates. A turn never starts earlier than planned, so where VFs stop in time, the starts of a
 * VF do not depend on what the others do.
 */
#pragma once

#include "ring_state.h"

/* Returns how much of its debt a VF's next slot settles, ns; rounded away from zero, so that all of
 * it is settled in the end. */
static int64_t ring_instalment(const struct ring *r, const struct ring_vf *vf)
{
	int64_t up = vf->debt > 0 ? r->factor - 1 : 1 - r->factor;

	return ring_max((vf->debt + up) / r->factor, -ring_turn(r, vf));
}

static void ring_owe(const struct ring *r, struct ring_vf *vf, int64_t more)
{
	vf->debt = ring_max(vf->debt + more, -RING_CREDIT_TURNS * ring_turn(r, vf));
	vf->deepest = ring_max(vf->deepest, vf->debt);
	vf->worst = ring_max(vf->worst, vf->debt < 0 ? -vf->debt : vf->debt);
}

/*
 * Settles PAID ns of VF's debt by a shorter or longer turn. The part of PAID that is for an overrun
 * moves the grid back. The time of the part that is for a slow switch stays empty, because the slot
 * had room for the switch. Returns by how much the turn becomes longer (PAID below 0) or the grid
 * moves back, ns.
 */
static int64_t ring_settle(const struct ring *r, struct ring_vf *vf, int64_t paid)
{
	int64_t back = paid > 0 ? (vf->moved > 0 ? vf->moved : 0) : (vf->moved < 0 ? vf->moved : 0);

	if (paid > 0 ? back > paid : back < paid)
		back = paid;
	vf->moved -= back;
	ring_owe(r, vf, -paid);
	return paid < 0 ? paid : back;
}

/* Returns what the open turn adds to its owner's debt if it ends now, ns. A VF that gave up its
 * turn is owed nothing. */
static int64_t ring_result(const struct ring *r)
{
	int64_t before = r->vfs[r->owner].debt, after = before + r->had - r->due;

	return (r->gave_up && after < 0 ? 0 : after) - before;
}

/* Settles the turn that is over. */
static void ring_close(struct ring *r)
{
	struct ring_vf *vf;

	if (!r->open)
		return;
	vf = &r->vfs[r->owner];
	ring_owe(r, vf, ring_result(r));
	r->open = false;
	vf->served = true;
	vf->since = r->done;
}

static uint32_t ring_next(const struct ring *r)
{
	const struct set *s = r->idle == RING_COMPRESS ? &r->awake : &r->members;

	if (r->owner == VGPU_NO_VF && r->first != VGPU_NO_VF && set_has(s, r->first))
		return r->first;
	return set_next(s, r->owner == VGPU_NO_VF ? r->first : r->owner);
}

/* Returns the part of SERVICE of VF that the other VFs are owed, ns. */
static int64_t ring_others_part(const struct ring *r, const struct ring_vf *vf, int64_t service)
{
	int64_t others = r->awake_slots - vf->slots;

	return r->awake_slots ? service * others / r->awake_slots : 0;
}

/* Returns what a VF is owed because of its place in the round, in ns. WAITED: the part of the
 * others' turns that have passed since the VF's own, in 1024ths, less 512: right after its turn a
 * VF is half a turn ahead, and right before its next turn half a turn behind. */
static int64_t ring_place_lag(const struct ring *r, const struct ring_vf *vf, int64_t waited)
{
	return ring_others_part(r, vf, ring_turn(r, vf)) * waited / 1024;
}

/*
 * Called when the first turn begins: turns what each VF was owed under the previous policy, beyond
 * what its place in the round owes it, into debts.
 */
static void ring_take_over(struct ring *r)
{
	int64_t before = 0, others, waited;
	uint32_t i, index = r->first;

	for (i = 0; i < r->facts->max_vfs; i++, index = (index + 1) % r->facts->max_vfs) {
		struct ring_vf *vf = &r->vfs[index];

		if (!vf->awake) { /* a VF without work is owed nothing, and keeps its debt */
			ring_owe(r, vf, vf->lag < 0 ? -vf->lag : 0);
			continue;
		}
		others = (r->awake_slots - vf->slots) * (int64_t)r->slice;
		waited = others ? (others - before) * 1024 / others : 1024;
		ring_owe(r, vf, ring_place_lag(r, vf, waited - 512) - vf->lag);
		vf->since = r->done - (others - before);
		vf->served = true;
		before += ring_turn(r, vf);
	}
	r->takes_over = false;
}

/* Opens the next slot, at START or later. */
static void ring_open(struct ring *r, vgpu_nsec start)
{
	int64_t least = (int64_t)r->facts->min_slice_ns, paid, turn;
	uint32_t before = r->owner;
	struct ring_vf *vf;

	ring_close(r);
	if (r->takes_over)
		ring_take_over(r);
	for (;;) {
		r->owner = ring_next(r);
		if (r->owner == VGPU_NO_VF)
			return;
		if (before == VGPU_NO_VF || r->owner <= before)
			ring_begin_round(r);
		before = r->owner;
		vf = &r->vfs[r->owner];
		turn = ring_turn(r, vf);
		paid = ring_instalment(r, vf);
		if (turn - paid >= least)
			break;
		if (vf->debt < turn) { /* settle only so much that the shortest slice remains */
			paid = turn > least ? turn - least : 0;
			break;
		}
		/* The debt is a whole turn: it costs this turn. */
		ring_settle(r, vf, turn);
	}
	r->open = true;
	r->gave_up = !vf->awake;
	r->due = turn - paid;
	r->had = 0;
	r->ran = 0;
	r->plan = start + ring_switch(r);
	r->slot_end = r->plan + (vgpu_nsec)(turn - ring_settle(r, vf, paid));
	/* A turn that is longer than a slice is served in parts, with room for a switch between
	 * them. */
	if (r->due > (int64_t)r->facts->max_slice_ns)
		r->slot_end += (vgpu_nsec)(r->due - 1) / r->facts->max_slice_ns * ring_switch(r);
}

/* Moves the grid on to the slot that contains NOW, after a time in which no VF had work. */
static void ring_catch_up(struct ring *r, vgpu_nsec now)
{
	vgpu_nsec round = (vgpu_nsec)r->member_slots * r->slice + r->members.n * ring_switch(r);
	vgpu_nsec rounds;
	uint32_t i;

	if (r->owner == VGPU_NO_VF || round == 0 || now < r->slot_end)
		return;
	ring_close(r);
	rounds = (now - r->slot_end) / round;
	r->slot_end += rounds * round;
	for (i = 0; rounds > 0 && i < r->facts->max_vfs; i++) {
		struct ring_vf *vf = &r->vfs[i];

		if (!vf->admitted)
			continue;
		vf->debt = (int64_t)rounds > vf->debt / ring_turn(r, vf)
				   ? 0
				   : vf->debt - (int64_t)rounds * ring_turn(r, vf);
		vf->moved = 0; /* the grid begins anew at NOW */
	}
	while (now >= r->slot_end && r->owner != VGPU_NO_VF) {
		ring_open(r, r->slot_end);
		r->gave_up = true;
	}
}

/* Returns whether the owner of the slot has used up its turn. */
static bool ring_is_over(const struct ring *r)
{
	return !r->open || r->due - r->had < (int64_t)r->facts->min_slice_ns;
}

/* Returns whether the next slot must be opened. USEFUL: the shortest time that is worth a switch,
 * ns. */
static bool ring_is_done(const struct ring *r, vgpu_nsec useful, vgpu_nsec now)
{
	if (r->owner == VGPU_NO_VF)
		return true;
	if (r->idle == RING_COMPRESS)
		return !r->in_parts || !r->vfs[r->owner].awake || ring_is_over(r);
	/* The rest of a slot may be too short to be worth a switch. */
	return now >= r->slot_end || (r->idle == RING_DONATE && now + useful > r->slot_end);
}

/* Returns the VF that may use the slot, or VGPU_NO_VF. */
static uint32_t ring_user(const struct ring *r)
{
	uint32_t other;

	if (r->vfs[r->owner].awake && !ring_is_over(r))
		return r->owner;
	if (r->idle != RING_DONATE)
		return VGPU_NO_VF;
	other = set_next(&r->awake, r->owner);
	return other == r->owner ? VGPU_NO_VF : other;
}

/* Grants VF the slot. FRESH: the slot was just opened; if it starts late, VF is not the cause. */
static void ring_grant(struct ring *r, struct vgpu_pick *out, uint32_t vf, bool fresh,
		       vgpu_nsec now)
{
	vgpu_nsec start = now + ring_switch(r), slice = (vgpu_nsec)(r->due - r->had);

	if (r->idle != RING_COMPRESS) {
		if (vf == r->owner && (fresh || start <= r->plan)) /* the VF gets its whole turn */
			out->not_before = r->plan;
		else if (vf != r->owner || start + slice > r->slot_end)
			slice = r->slot_end > start ? r->slot_end - start : 1;
		if (vf != r->owner)
			out->flags = VGPU_PICK_DONATED;
		else if (r->idle == RING_HOLD)
			out->flags = VGPU_PICK_HOLD;
	}
	r->in_parts = vf == r->owner && slice > r->facts->max_slice_ns;
	out->vf = vf;
	out->slice = slice < r->facts->max_slice_ns ? slice : r->facts->max_slice_ns;
	r->offered = (int64_t)out->slice;
	r->extended = false;
	r->beside = VGPU_NEVER;
	r->expected = out->not_before > start ? out->not_before : start;
}

static void ring_note_late(struct ring *r, uint32_t vf, vgpu_nsec now)
{
	if (r->expected && vf != VGPU_NO_VF && now > r->expected)
		r->vfs[vf].late = ring_max(r->vfs[vf].late, (int64_t)(now - r->expected));
	r->expected = 0;
}

/* Extends the slot until the remaining parts of its turn fit. */
static void ring_go_on(struct ring *r, vgpu_nsec now)
{
	vgpu_nsec end;

	if (!r->in_parts)
		return;
	end = now + ring_switch(r) + (vgpu_nsec)(r->due - r->had);
	if (r->slot_end < end)
		r->slot_end = end;
}

/* Opens the next slot. After a window, a reset or a pause the grid begins anew. With idle=hold,
 * slots that would stay empty are placed into the time that was lost, so that the turns of the
 * others catch up with the clock. */
static void ring_open_next(struct ring *r, vgpu_nsec now)
{
	vgpu_nsec start = r->slot_end, most = r->members.n * r->facts->window_ns;

	/* slot_end includes delays by debts. A delay of up to one switch does not move the grid. */
	if (r->idle == RING_COMPRESS || now > start + ring_switch(r)) {
		r->behind += r->owner == VGPU_NO_VF ? 0 : now - start;
		r->behind = r->behind < most ? r->behind : most;
		start = now;
	}
	ring_open(r, start);
	while (r->idle == RING_HOLD && !r->vfs[r->owner].awake &&
	       r->behind >= r->slot_end - start) {
		r->behind -= r->slot_end - start;
		ring_open(r, start);
	}
}

static void ring_pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	struct ring *r = state;
	vgpu_nsec useful = ring_switch(r) + r->facts->min_slice_ns;
	bool fresh = false;
	uint32_t vf;

	ring_note_late(r, r->owner, now);
	if (r->awake.n == 0) {
		r->at_rest = true;
		return;
	}
	if (r->at_rest && r->idle == RING_HOLD)
		ring_catch_up(r, now);
	r->at_rest = false;
	ring_go_on(r, now);
	if (ring_is_done(r, useful, now)) {
		ring_open_next(r, now);
		fresh = true;
	}
	vf = ring_user(r);
	if (vf != VGPU_NO_VF &&
	    (fresh || r->idle == RING_COMPRESS || now + useful <= r->slot_end)) {
		ring_grant(r, out, vf, fresh, now);
	} else {
		out->park_until = r->slot_end;
		r->expected = r->slot_end;
	}
	if (r->new_shares)
		out->flags |= VGPU_PICK_NEW_SHARES;
	r->new_shares = false;
}

static void ring_run(void *state, uint32_t vf, vgpu_nsec now)
{
	ring_note_late(state, vf, now);
}

/* Extends a VF without competitors. With competitors, the next turn is another VF's. */
static vgpu_nsec ring_extend(void *state, uint32_t vf, vgpu_nsec end)
{
	struct ring *r = state;
	uint32_t n = r->idle == RING_COMPRESS ? r->awake.n : r->members.n;

	(void)end;
	if (n != 1 || vf != r->owner)
		return 0;
	r->extended = true;
	r->beside = VGPU_NEVER;
	r->vfs[vf].debt = 0; /* no other VF has work, so it owes nothing */
	return r->facts->max_slice_ns;
}

/* Moves the grid by the difference between the turn and its slot, until the debt is settled. */
static void ring_move(struct ring *r, const struct vgpu_usage *usage)
{
	struct ring_vf *vf = &r->vfs[usage->vf];
	int64_t by = r->ran - r->due;

	if (r->gave_up) {
		r->slot_end += usage->overrun;
		return;
	}
	r->slot_end += (vgpu_nsec)by;
	vf->moved += by;
}

static void ring_account_own(struct ring *r, const struct vgpu_usage *usage)
{
	struct ring_vf *vf = &r->vfs[usage->vf];
	bool interrupted = usage->reason == VGPU_END_EXCLUSIVE;
	bool cut = usage->reason == VGPU_END_SLICE || interrupted;
	vgpu_nsec shared = usage->end > r->beside ? usage->end - r->beside : 0, more;

	/* The used part of an extension makes the turn and the slot longer, until another VF has
	 * work. What the VF uses after that is its debt, even if it stops no later than usual. */
	more = usage->used > shared ? usage->used - shared : 0;
	more = more < usage->granted ? more : usage->granted;
	if (r->extended && more > (vgpu_nsec)r->offered) {
		r->due += (int64_t)more - r->offered;
		r->slot_end += more - (vgpu_nsec)r->offered;
	}
	r->done += (int64_t)usage->charge;
	r->had += (int64_t)usage->charge;
	r->ran += (int64_t)usage->used;
	vf->over = ring_max(vf->over, r->ran - r->due);
	r->gave_up = r->gave_up || !cut;
	r->in_parts = ((r->in_parts && cut) || interrupted) && !r->gave_up && !ring_is_over(r);
	if (r->in_parts)
		return;
	if (cut) {
		ring_move(r, usage);
		ring_close(r);
	} else if (r->idle == RING_COMPRESS || usage->reason != VGPU_END_YIELD) {
		ring_close(r);
	}
}

static void ring_account(void *state, const struct vgpu_usage *usage)
{
	struct ring *r = state;
	struct ring_vf *vf = &r->vfs[usage->vf];

	r->expected = 0;
	vf->over = ring_max(vf->over, (int64_t)usage->overrun);
	if (!usage->donated) {
		ring_account_own(r, usage);
		return;
	}
	/* The slot may be over: a rest that the wake of its owner cut short counts up to its
	 * end. */
	if (usage->end > r->slot_end)
		r->slot_end = usage->end;
	ring_owe(r, vf, (int64_t)usage->charge);
}

static bool ring_wake(void *state, uint32_t index, vgpu_nsec now)
{
	struct ring *r = state;
	struct ring_vf *vf = &r->vfs[index];

	vf->awake = true;
	set_add(&r->awake, index);
	r->awake_slots += vf->slots;
	if (r->beside > now)
		r->beside = now;
	/* A VF counts as served only if any VF has run. */
	vf->served = r->done > 0;
	vf->since = r->done;
	if (r->at_rest)
		return true;
	/* The slot is the VF's own, and the rest is still worth a switch. */
	return r->idle != RING_COMPRESS && index == r->owner && !ring_is_over(r) &&
	       now + ring_switch(r) + r->facts->min_slice_ns <= r->slot_end;
}

/* Removes a VF without work: it keeps its debt, but is owed nothing. */
static void ring_sleep(void *state, uint32_t index, vgpu_nsec now)
{
	struct ring *r = state;
	struct ring_vf *vf = &r->vfs[index];

	(void)now;
	vf->awake = false;
	set_remove(&r->awake, index);
	r->awake_slots -= vf->slots;
	if (index == r->owner) {
		r->gave_up = true;
		r->in_parts = false;
	}
	if (vf->debt < 0)
		vf->debt = 0;
}

static void ring_remove(void *state, uint32_t vf, vgpu_nsec now)
{
	struct ring *r = state;

	if (r->vfs[vf].awake)
		ring_sleep(state, vf, now);
	ring_leave(r, vf);
	r->vfs[vf].admitted = false;
	r->vfs[vf].online = false;
}

static void ring_online(void *state, uint32_t vf, vgpu_nsec now)
{
	struct ring *r = state;

	(void)now;
	r->vfs[vf].online = true;
	ring_join(r, vf);
}

static void ring_offline(void *state, uint32_t vf, vgpu_nsec now)
{
	struct ring *r = state;

	(void)now;
	r->vfs[vf].online = false;
	if (!r->all_members)
		ring_leave(r, vf);
}
