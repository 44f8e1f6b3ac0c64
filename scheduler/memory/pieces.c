/* SPDX-License-Identifier: MIT */
/*
 * The GPU clears and copies memory in pieces of about a millisecond, one at a time. These take
 * turns: each VF that was reset, a move, and memory without an owner.
 */
#include <errno.h>

#include "private.h"

/* Target length of a piece: half of a short slice, so that it delays the work of VFs by no more. */
#define PIECE_TIME VGPU_MSEC
#define LARGEST_PIECE 16u /* granules */
/* Pause between pieces that nothing waits for, while the engine has work. */
#define BACKGROUND_PAUSE (20 * VGPU_MSEC)
#define RETRY_AFTER VGPU_SEC
/* A VF's budget of resets: this many at once, and one more after each refill. */
#define RESETS 9u
#define RESET_REFILL (7 * VGPU_SEC)

/* Returns whether a VF exceeds its budget of resets. */
static bool overdraws(struct scrub *s, vgpu_nsec now)
{
	vgpu_nsec full = s->resets_at > now ? s->resets_at : now;

	if (full - now > (RESETS - 1) * RESET_REFILL)
		return true;
	s->resets_at = full + RESET_REFILL;
	return false;
}

/* Bytes of each VF's slot in the context-save area. */
static uint64_t slot_of(const struct vgpu_memory_state *m)
{
	return m->partition.save_area.size / m->n_vfs;
}

static void scrubbed(struct vgpu_memory_state *m, uint32_t vf, int64_t status)
{
	memory_act(m, VGPU_MA_SCRUBBED, vf, 0)->value = status;
}

void pieces_scrub(struct vgpu_memory_state *m, uint32_t vf)
{
	struct scrub *s = &m->scrubs[vf];

	/* The scrub starts again, so the earlier one is answered now. */
	if (s->wanted)
		scrubbed(m, vf, 0);
	if (m->piece.kind == PIECE_SCRUB && m->piece.vf == vf)
		m->piece.stale = true;
	s->again = s->wanted;
	s->spare = overdraws(s, m->now);
	s->at = s->wanted ? s->at : 0;
	s->left = m->partition.vfs[vf].size + slot_of(m);
	s->tries = 0;
	s->wanted = true;
}

static void scrub_is_done(struct vgpu_memory_state *m, uint32_t vf, int64_t status)
{
	m->scrubs[vf].wanted = false;
	scrubbed(m, vf, status);
}

/* A piece of a VF's scrub is done. */
static void settle_scrub(struct vgpu_memory_state *m, const struct piece *p, bool good)
{
	struct scrub *s = &m->scrubs[p->vf];

	if (p->stale)
		return;
	if (!good) {
		if (++s->tries == TRIES)
			scrub_is_done(m, p->vf, -EIO);
		return;
	}
	s->tries = 0;
	s->left -= p->where.size;
	s->at = (s->at + p->where.size) % (m->partition.vfs[p->vf].size + slot_of(m));
	if (s->left == 0)
		scrub_is_done(m, p->vf, 0);
}

/* A piece of memory without an owner is done. */
static void settle_free(struct vgpu_memory_state *m, const struct piece *p, bool good)
{
	if (!good && ++m->free_tries < TRIES)
		return;
	m->free_tries = 0;
	if (good)
		vgpu_memory_scrubbed(&m->table, p->where.offset, p->where.size);
	else
		m->retry_at = m->now + RETRY_AFTER;
	m->background_at = m->now + BACKGROUND_PAUSE;
}

/* Adapts the size of pieces to the time that they take. */
static void adapt(struct vgpu_memory_state *m, vgpu_nsec took)
{
	uint64_t granule = m->table.granule;

	if (took > 2 * PIECE_TIME && m->step > granule)
		m->step = m->step / 2 / granule * granule;
	else if (took < PIECE_TIME && m->step < LARGEST_PIECE * granule)
		m->step *= 2;
}

/* Measures the speed of copies to and from host memory. */
static void measure_rate(struct vgpu_memory_state *m, const struct piece *p, vgpu_nsec took)
{
	bool from_host = p->from >= m->table.local, to_host = p->where.offset >= m->table.local;

	if ((p->kind == PIECE_COPY || p->kind == PIECE_PROBE) && from_host != to_host && took > 0)
		m->counters.swap_rate[from_host] =
			(uint64_t)((unsigned __int128)p->where.size * VGPU_SEC / took);
}

void pieces_done(struct vgpu_memory_state *m, bool good)
{
	struct piece p = m->piece;

	m->piece = (struct piece){.kind = PIECE_NONE};
	if (p.kind == PIECE_NONE || p.kind == PIECE_SETTLE)
		return;
	if (p.where.size == m->step)
		adapt(m, m->now - p.began);
	measure_rate(m, &p, m->now - p.began);
	m->counters.failed_pieces += !good;
	if (good && (p.kind == PIECE_SCRUB || p.kind == PIECE_FREE))
		m->counters.cleared += p.where.size;
	if (p.kind == PIECE_COPY)
		move_copied(m, p.where.size, good);
	else if (p.kind == PIECE_FREE)
		settle_free(m, &p, good);
	else if (p.kind == PIECE_SCRUB)
		settle_scrub(m, &p, good);
}

static struct vgpu_extent part_of(const struct vgpu_memory_state *m, uint64_t offset, uint64_t size)
{
	return (struct vgpu_extent){offset, size < m->step ? size : m->step};
}

/* The next piece of a VF's scrub. A VF that is reset repeatedly gets small pieces, so that others
 * wait for at most one granule of it. */
static struct piece next_of_vf(const struct vgpu_memory_state *m, uint32_t vf)
{
	const struct scrub *s = &m->scrubs[vf];
	const struct vgpu_extent *e = &m->partition.vfs[vf];
	struct piece p = {.kind = PIECE_SCRUB, .vf = vf};

	if (s->at >= e->size) {
		p.where = (struct vgpu_extent){m->partition.save_area.offset + vf * slot_of(m),
					       slot_of(m)};
		return p;
	}
	p.where = part_of(m, e->offset + s->at, e->size - s->at);
	if (p.where.size > s->left)
		p.where.size = s->left;
	if ((s->again || s->spare) && p.where.size > m->table.granule)
		p.where.size = m->table.granule;
	return p;
}

static const struct vgpu_memory_extent *first_dirty(const struct vgpu_memory_state *m)
{
	uint32_t i;

	for (i = 0; i < m->table.n; i++)
		if (m->extents[i].state == VGPU_EXTENT_SCRUBBING)
			return &m->extents[i];
	return NULL;
}

/* Returns whether a turn has work for which a VF or a change waits; with SPARE, any work. */
static bool wants_turn(const struct vgpu_memory_state *m, uint32_t turn, bool spare)
{
	bool waits = m->change.active || m->swap_waits;

	if (turn == TURN_MOVE)
		return !spare && move_may_copy(m);
	if (turn != TURN_FREE)
		return m->scrubs[turn].wanted && m->scrubs[turn].spare == spare;
	return first_dirty(m) && m->now >= m->retry_at && waits != spare &&
	       (waits || m->now >= m->background_at || !m->engine_works);
}

static struct piece next_of(const struct vgpu_memory_state *m, uint32_t turn)
{
	const struct vgpu_memory_extent *dirty = first_dirty(m);
	const struct move *v = &m->move;

	if (turn == TURN_MOVE)
		return (struct piece){.kind = PIECE_COPY,
				      .from = v->from + v->done,
				      .where = part_of(m, v->to + v->done, v->size - v->done)};
	if (turn == TURN_FREE)
		return (struct piece){.kind = PIECE_FREE,
				      .where = part_of(m, dirty->offset, dirty->size)};
	return next_of_vf(m, turn);
}

/* Takes the next piece in turn; false: there is none. */
static bool take_turn(struct vgpu_memory_state *m, bool spare)
{
	uint32_t i, turn;

	for (i = 1; i <= TURNS; i++) {
		turn = (m->turn + i) % TURNS;
		if (!wants_turn(m, turn, spare))
			continue;
		m->turn = turn;
		m->piece = next_of(m, turn);
		return true;
	}
	return false;
}

/* Measures copies once in each direction, if there is room. */
static void probe(struct vgpu_memory_state *m)
{
	uint64_t free[2] = {UINT64_MAX, UINT64_MAX};
	bool back = m->counters.swap_rate[0] > 0;
	uint32_t i;

	if (!m->host || m->counters.swap_rate[1] || m->change.active || m->move.active)
		return;
	for (i = 0; i < m->table.n; i++)
		if (m->extents[i].state == VGPU_EXTENT_FREE)
			free[m->extents[i].offset >= m->table.local] = m->extents[i].offset;
	if (free[0] == UINT64_MAX || free[1] == UINT64_MAX)
		return;
	m->piece = (struct piece){.kind = PIECE_PROBE,
				  .from = free[back],
				  .where = {free[!back], m->table.granule}};
}

void pieces_start(struct vgpu_memory_state *m)
{
	struct vgpu_memory_action *a;
	bool copies;
	uint32_t i;

	for (i = 0; i < m->n_vfs; i++)
		if (m->scrubs[i].wanted && m->scrubs[i].left == 0)
			scrub_is_done(m, i, 0); /* it has no memory */
	if (!take_turn(m, false) && !take_turn(m, true))
		probe(m);
	if (m->piece.kind == PIECE_NONE)
		return;
	copies = m->piece.kind == PIECE_COPY || m->piece.kind == PIECE_PROBE;
	m->piece.began = m->now;
	a = memory_act(m, copies ? VGPU_MA_COPY : VGPU_MA_CLEAR, VGPU_NO_VF, 0);
	a->where = m->piece.where;
	a->from = m->piece.from;
}

vgpu_nsec pieces_deadline(const struct vgpu_memory_state *m)
{
	if (!first_dirty(m))
		return VGPU_NEVER;
	return m->background_at > m->retry_at ? m->background_at : m->retry_at;
}
