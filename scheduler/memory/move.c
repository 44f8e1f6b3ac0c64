/* SPDX-License-Identifier: MIT */
/*
 * A partition on its way: the VF leaves the engine, its memory is copied and compared, its entry in
 * the GPU's table is written over, and where it was is cleared. Given up at any step, the VF is
 * where it was, or where it was meant to be. A move to host memory, or from there, is a swap:
 * between them the VF is away from the engine.
 */
#include "private.h"

/* A VF leaves the engine within a slice, or a hang is found; its window can last a second. */
#define LEAVE_WITHIN (3 * VGPU_SEC)
/* After a move that was given up, before the next swap. */
#define SWAP_AGAIN (100 * VGPU_MSEC)

/* Whether a move leaves the GPU's memory, or comes into it. */
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
	memory_tell(m, VGPU_MA_RELEASE, v->vf, VGPU_KEEP_HELD);
	here = vgpu_memory_is_here(m, v->vf);
	if (leaves(m) || enters(m))
		memory_tell(m, here ? VGPU_MA_RELEASE : VGPU_MA_HOLD, v->vf, VGPU_KEEP_AWAY);
}

/* The entry is written: the move is done, if the GPU takes that. */
static void flip(struct vgpu_memory_state *m)
{
	m->placing = (struct placing){.active = true, .where = {m->move.to, m->move.size}};
	memory_act(m, VGPU_MA_PLACE, m->move.vf, 0)->where = m->placing.where;
}

void move_placed(struct vgpu_memory_state *m, bool good)
{
	end_move(m, good);
}

/* The VF is asked to keep away for good. */
static void ask_away(struct vgpu_memory_state *m)
{
	m->move.away_asked = true;
	memory_tell(m, VGPU_MA_HOLD, m->move.vf, VGPU_KEEP_AWAY);
}

/* One that no guest has up has nothing to be copied. */
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

	/* It may have been let go, and not be as we know it. */
	if (m->telling >> v.vf & 1 || (from >= m->table.local && !is->parked))
		return false;
	if (vgpu_memory_move_begin(&m->table, from, to) < 0)
		return false;
	v.done = v.empty ? v.size : 0;
	m->move = v;
	if (enters(m)) /* it is away */
		move_advance(m);
	else if (!v.empty)
		memory_tell(m, VGPU_MA_HOLD, v.vf, VGPU_KEEP_HELD);
	else if (leaves(m))
		ask_away(m);
	else
		flip(m);
	return true;
}

/* Away from the engine and kept there, with what it had when the move began. */
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

	/* Until the core has heard of it, the VF is not as it was asked to be. After that it is
	 * held, or away, or that was refused; until a reset or a window of its own ends it. */
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
