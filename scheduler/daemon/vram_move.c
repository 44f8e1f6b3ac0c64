/* SPDX-License-Identifier: MIT */
/*
 * A partition on its way: the VF leaves the engine, its memory is copied and compared, its entry in
 * the GPU's table is written over, and where it was is cleared. Given up at any step, the VF is
 * where it was, or where it was meant to be. A move to host memory, or from there, is a swap:
 * between them the VF is away from the engine.
 */
#include "engine.h"

/* A VF leaves the engine within a slice, or a hang is found; its window can last a second. */
#define LEAVE_WITHIN (3 * VGPU_SEC)
/* After a move that was given up, before the next swap. */
#define SWAP_AGAIN (100 * VGPU_MSEC)

/* Whether a move leaves the GPU's memory, or comes into it. */
static bool leaves(const struct vram *v)
{
	return v->move.to >= v->table.local;
}

static bool enters(const struct vram *v)
{
	return v->move.from >= v->table.local;
}

static void count(struct vram *v, bool moved, vgpu_nsec now)
{
	const struct vram_move *m = &v->move;
	struct vram_counters *c = &v->counters;
	vgpu_nsec took = now - m->began;

	if (!leaves(v) && !enters(v)) {
		c->moves += moved;
		c->moved += moved ? m->size : 0;
		c->aborted_moves += !moved;
		return;
	}
	c->aborted_swaps += !moved;
	if (!moved || m->expects == VGPU_CTX_NONE)
		return;
	c->swaps[enters(v)]++;
	c->swapped[enters(v)] += m->size;
	c->swap_time[enters(v)] =
		c->swap_time[enters(v)] ? (c->swap_time[enters(v)] * 3 + took) / 4 : took;
	v->residency.cost = c->swap_time[0] + c->swap_time[1];
}

static void end_move(struct vram *v, bool moved, vgpu_nsec now)
{
	struct vram_move *m = &v->move;

	m->active = false;
	count(v, moved, now);
	if (moved) {
		vgpu_memory_move_end(&v->table, m->from, m->to);
		v->partition.vfs[m->vf].offset = m->to;
	} else {
		vgpu_memory_move_abort(&v->table, m->to);
		v->attempts++;
		v->swap_at = now + SWAP_AGAIN;
	}
	vram_tell(v, VGPU_EV_HOLD, m->vf, 0, now);
	if (leaves(v) || enters(v))
		vram_tell(v, VGPU_EV_AWAY, m->vf, !vram_is_here(v, m->vf), now);
}

static bool flip(struct vram *v)
{
	const struct vram_move *m = &v->move;

	return v->ops->place(v->driver, m->vf, (struct vgpu_extent){m->to, m->size}) == 0;
}

/* The VF is asked to keep away for good. */
static void ask_away(struct vram *v, vgpu_nsec now)
{
	v->move.away_asked = true;
	vram_tell(v, VGPU_EV_AWAY, v->move.vf, 1, now);
}

/* One that no guest has up has nothing to be copied. */
bool vram_begin_move(struct vram *v, uint64_t from, uint64_t to, vgpu_nsec now)
{
	const struct vgpu_memory_extent *e = vgpu_memory_at(&v->table, from);
	enum vgpu_context context = vram_vf(v, e->owner).context;
	struct vram_move m = {
		.active = true,
		.vf = e->owner,
		.from = from,
		.to = to,
		.size = e->size,
		.expects = context == VGPU_CTX_NONE ? VGPU_CTX_NONE : VGPU_CTX_SAVED,
		.began = now,
		.until = now + LEAVE_WITHIN,
	};

	if (from >= v->table.local && context != m.expects)
		return false;
	if (vgpu_memory_move_begin(&v->table, from, to) < 0)
		return false;
	if (m.expects == VGPU_CTX_NONE)
		m.done = m.size;
	v->move = m;
	if (enters(v))
		v->move.asked = true; /* it is away */
	else if (m.expects != VGPU_CTX_NONE)
		vram_tell(v, VGPU_EV_HOLD, m.vf, 1, now);
	else if (leaves(v))
		ask_away(v, now);
	if (m.expects == VGPU_CTX_NONE && !leaves(v))
		end_move(v, flip(v), now);
	return true;
}

/* Away from the engine, and kept there. */
static bool is_parked(const struct vram *v)
{
	struct vgpu_vf_view view = vram_vf(v, v->move.vf);

	return (view.held || view.away) && view.context == v->move.expects && !view.on_engine &&
	       !view.comes;
}

bool vram_may_copy(const struct vram *v)
{
	return v->move.active && v->move.done < v->move.size && is_parked(v);
}

void vram_copied(struct vram *v, const struct vram_piece *piece, bool good, vgpu_nsec now)
{
	struct vram_move *m = &v->move;

	if (!m->active)
		return;
	if (good) {
		m->done += piece->where.size;
		m->tries = 0;
	} else if (++m->tries == VRAM_TRIES) {
		end_move(v, false, now);
	}
}

void vram_advance_move(struct vram *v, vgpu_nsec now)
{
	struct vram_move *m = &v->move;
	struct vgpu_vf_view view = vram_vf(v, m->vf);

	/* The core hears of what it is asked before we come here again: after that the VF is held,
	 * or away, or that was refused; until a reset or a window of its own ends it. */
	if (m->away_asked)
		end_move(v, is_parked(v) && view.away && flip(v), now);
	else if ((m->asked && !view.held && !view.away) ||
		 (enters(v) && view.context != m->expects))
		end_move(v, false, now);
	else if (m->done == m->size && is_parked(v) && leaves(v))
		ask_away(v, now);
	else if (m->done == m->size && is_parked(v))
		end_move(v, flip(v), now);
	else if (m->done == 0 && now >= m->until)
		end_move(v, false, now);
	m->asked = true;
}
