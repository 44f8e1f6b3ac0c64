/* SPDX-License-Identifier: MIT */
/*
 * Moves a partition: the VF leaves the engine, its memory is copied and compared, its entry in the
 * GPU's table is rewritten, and its old range is cleared. If a move is given up at any step, the VF
 * has its old partition or its new one, complete. A move to host memory, or from there, is a swap;
 * while its partition is in host memory the VF is away from the engine.
 */
#include "private.h"

/* A VF leaves the engine within a slice, or is reset for a hang; an exclusive window can last a
 * second. */
#define LEAVE_WITHIN (3 * VGPU_SEC)
/* Pause before the next swap after a move was given up. */
#define SWAP_AGAIN (100 * VGPU_MSEC)

/* Returns whether the move is a swap out; enters(): a swap in. */
static bool leaves(const struct vgpu_memory_state *m)
{
	return m->move.to >= m->table.local;
}

static bool enters(const struct vgpu_memory_state *m)
{
	return m->move.from >= m->table.local;
}

static void count(struct vgpu_memory_state *m, bool moved)
{
	const struct move *v = &m->move;
	struct vgpu_memory_counters *c = &m->counters;
	vgpu_nsec took = m->now - v->began, *mean = &c->swap_time[enters(m)];

	if (!leaves(m) && !enters(m)) {
		c->moves += moved;
		c->moved += moved ? v->size : 0;
		c->aborted_moves += !moved;
		return;
	}
	c->aborted_swaps += !moved;
	if (!moved || v->empty)
		return;
	c->swaps[enters(m)]++;
	c->swapped[enters(m)] += v->size;
	*mean = *mean ? (*mean * 3 + took) / 4 : took;
	m->residency.cost = c->swap_time[0] + c->swap_time[1];
}

static void end_move(struct vgpu_memory_state *m, bool moved)
{
	struct move *v = &m->move;
	bool here;

	v->active = false;
	count(m, moved);
	if (moved) {
		vgpu_memory_move_end(&m->table, v->from, v->to);
		m->partition.vfs[v->vf].offset = v->to;
	} else {
		vgpu_memory_move_abort(&m->table, v->to);
		m->change.attempts++;
		m->swap_at = m->now + SWAP_AGAIN;
	}
	memory_act_on_vf(m, VGPU_MA_RELEASE, v->vf, VGPU_KEEP_HELD);
	here = vgpu_memory_is_here(m, v->vf);
	if (leaves(m) || enters(m))
		memory_act_on_vf(m, here ? VGPU_MA_RELEASE : VGPU_MA_HOLD, v->vf, VGPU_KEEP_AWAY);
}

/* Writes the entry in the GPU's table; the move is done when the GPU has accepted it. */
static void flip(struct vgpu_memory_state *m)
{
	m->placing = (struct placing){.active = true, .where = {m->move.to, m->move.size}};
	memory_act(m, VGPU_MA_PLACE, m->move.vf, 0)->where = m->placing.where;
}

void move_placed(struct vgpu_memory_state *m, bool good)
{
	end_move(m, good);
}

/* Keeps the VF off the engine until RELEASE. */
static void ask_away(struct vgpu_memory_state *m)
{
	m->move.away_asked = true;
	memory_act_on_vf(m, VGPU_MA_HOLD, m->move.vf, VGPU_KEEP_AWAY);
}

/* The memory of a VF without a context need not be copied. */
bool move_begin(struct vgpu_memory_state *m, uint64_t from, uint64_t to)
{
	const struct vgpu_memory_extent *e = vgpu_memory_at(&m->table, from);
	const struct vgpu_memory_vf *is = &m->vfs[e->owner];
	struct move v = {
		.active = true,
		.vf = e->owner,
		.from = from,
		.to = to,
		.size = e->size,
		.empty = is->empty,
		.began = m->now,
		.until = m->now + LEAVE_WITHIN,
	};

	/* After a RELEASE the known state of the VF may be stale. */
	if (m->telling >> v.vf & 1 || (from >= m->table.local && !is->parked))
		return false;
	if (vgpu_memory_move_begin(&m->table, from, to) < 0)
		return false;
	v.done = v.empty ? v.size : 0;
	m->move = v;
	if (enters(m)) /* the VF is away already */
		move_advance(m);
	else if (!v.empty)
		memory_act_on_vf(m, VGPU_MA_HOLD, v.vf, VGPU_KEEP_HELD);
	else if (leaves(m))
		ask_away(m);
	else
		flip(m);
	return true;
}

/* Returns whether the VF is parked, with a context if it had one when the move began. */
static bool is_parked(const struct vgpu_memory_state *m)
{
	const struct vgpu_memory_vf *is = &m->vfs[m->move.vf];

	return is->parked && is->empty == m->move.empty;
}

bool move_may_copy(const struct vgpu_memory_state *m)
{
	return m->move.active && m->move.done < m->move.size && is_parked(m);
}

void move_copied(struct vgpu_memory_state *m, uint64_t size, bool good)
{
	struct move *v = &m->move;

	if (good) {
		v->done += size;
		v->tries = 0;
	} else if (++v->tries == TRIES) {
		end_move(m, false);
	}
}

void move_advance(struct vgpu_memory_state *m)
{
	struct move *v = &m->move;
	const struct vgpu_memory_vf *is = &m->vfs[v->vf];
	bool parked = is_parked(m);

	/* Until the core has applied our request, the known state of the VF is stale. After that it
	 * is held, or away, or the request was refused; a reset or a window of the VF ends a hold.
	 */
	if (m->telling >> v->vf & 1)
		return;
	if (v->away_asked && (!parked || !is->away))
		end_move(m, false);
	else if (!is->kept || (enters(m) && !parked))
		end_move(m, false);
	else if (v->done == v->size && parked && leaves(m) && !v->away_asked)
		ask_away(m);
	else if (v->done == v->size && parked)
		flip(m);
	else if (v->done == 0 && m->now >= v->until)
		end_move(m, false);
}
