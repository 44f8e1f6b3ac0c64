/* SPDX-License-Identifier: MIT */
/*
 * Turns events into actions. Handlers record an event's content. The end of each step decides what
 * to do next: continue a move, else a change, else a swap, then begin the next piece. It decides
 * nothing after VGPU_ME_VF, which reports one VF of several, and while a piece, or a write to the
 * GPU's table, is in progress.
 */
#include <assert.h>
#include <string.h>

#include "private.h"

size_t vgpu_memory_state_size(void)
{
	return sizeof(struct vgpu_memory_state);
}

/* Memory without an owner may hold data of an earlier owner: it must be cleared again. */
static void doubt_what_is_free(struct vgpu_memory_state *m, bool host_is_new)
{
	uint64_t begin;
	uint32_t i;

	for (i = 0; i < m->table.n; i++) {
		begin = m->extents[i].offset;
		if (m->extents[i].state != VGPU_EXTENT_FREE ||
		    (begin >= m->table.local && host_is_new))
			continue;
		vgpu_memory_reserve(&m->table, VGPU_MEMORY_PF, begin, m->extents[i].size);
		vgpu_memory_release(&m->table, begin);
	}
}

struct vgpu_memory_state *vgpu_memory_open(void *memory, const struct vgpu_memory_config *config)
{
	struct vgpu_memory_state *m = memory;
	const struct vgpu_partition *p = &config->partition;
	struct vgpu_memory_counters counters = m->counters;
	uint64_t usual[VGPU_GPU_MAX_VFS];
	uint32_t i;

	memcpy(usual, m->opened ? m->usual : config->usual, sizeof(usual));
	*m = (struct vgpu_memory_state){
		.opened = true,
		.n_vfs = config->n_vfs,
		.placement = config->placement,
		.partition = *p,
		.engine_works = true,
		.piece = {.kind = PIECE_SETTLE},
		.step = config->granule,
		.host = config->host,
		.pinned = config->pinned,
		.swappable = config->swappable,
		.look_at = VGPU_NEVER,
		.counters = counters,
	};
	memcpy(m->usual, usual, sizeof(usual));
	vgpu_residency_init(&m->residency, m->n_vfs, config->epoch);
	vgpu_memory_init(&m->table, m->extents, VGPU_MEMORY_EXTENTS, config->total,
			 config->granule);
	vgpu_memory_extend(&m->table, config->host);
	if (p->pf.size)
		vgpu_memory_reserve(&m->table, VGPU_MEMORY_PF, p->pf.offset, p->pf.size);
	for (i = 0; i < m->n_vfs; i++)
		if (p->vfs[i].size)
			vgpu_memory_reserve(&m->table, i, p->vfs[i].offset, p->vfs[i].size);
	homes_find_all(m);
	doubt_what_is_free(m, config->host_is_new);
	return m;
}

static void on_timer(struct vgpu_memory_state *, const struct vgpu_memory_event *event)
{
	(void)event; /* the end of the step acts on the time */
}

static void on_vf(struct vgpu_memory_state *m, const struct vgpu_memory_event *event)
{
	m->vfs[event->vf] = event->is;
	if (event->code)
		m->telling &= ~VGPU_VF_BIT(event->vf);
}

static void on_engine(struct vgpu_memory_state *m, const struct vgpu_memory_event *event)
{
	m->engine_works = event->code;
}

static void on_scrub(struct vgpu_memory_state *m, const struct vgpu_memory_event *event)
{
	pieces_scrub(m, event->vf);
}

static void on_done(struct vgpu_memory_state *m, const struct vgpu_memory_event *event)
{
	pieces_done(m, event->value == 0);
}

static void on_placed(struct vgpu_memory_state *m, const struct vgpu_memory_event *event)
{
	if (!m->placing.active)
		return;
	m->placing.active = false;
	if (m->move.active)
		move_placed(m, event->value == 0);
	else
		resize_placed(m, event->value == 0);
}

static void on_change(struct vgpu_memory_state *m, const struct vgpu_memory_event *event)
{
	resize_begin(m, event->code, &event->change);
}

/* The handlers of events, and whether the event must name a VF. */
static const struct handler {
	void (*handle)(struct vgpu_memory_state *m, const struct vgpu_memory_event *event);
	bool names_vf;
} handlers[VGPU_ME_COUNT] = {
	[VGPU_ME_TIMER] = {on_timer, false},   [VGPU_ME_VF] = {on_vf, true},
	[VGPU_ME_ENGINE] = {on_engine, false}, [VGPU_ME_SCRUB] = {on_scrub, true},
	[VGPU_ME_DONE] = {on_done, false},     [VGPU_ME_PLACED] = {on_placed, false},
	[VGPU_ME_CHANGE] = {on_change, false},
};

/* Decides the next step of the work. */
static void advance(struct vgpu_memory_state *m)
{
	if (m->piece.kind || m->placing.active)
		return;
	m->look_at = VGPU_NEVER;
	if (m->move.active)
		move_advance(m);
	else if (m->change.active)
		resize_advance(m);
	if (!m->change.active && !m->move.active)
		swap_advance(m);
	if (!m->placing.active)
		pieces_start(m);
}

void vgpu_memory_step(struct vgpu_memory_state *m, const struct vgpu_memory_event *event,
		      struct vgpu_memory_output *out)
{
	assert(event->type < VGPU_ME_COUNT);
	out->n = 0;
	m->out = out;
	m->now = event->now;
	m->table.extents = m->extents; /* the state may have been copied to another address */
	if (!handlers[event->type].names_vf || event->vf < m->n_vfs)
		handlers[event->type].handle(m, event);
	if (event->type != VGPU_ME_VF)
		advance(m);
	m->out = NULL;
}

vgpu_nsec vgpu_memory_deadline(const struct vgpu_memory_state *m)
{
	vgpu_nsec t = pieces_deadline(m);

	if (m->piece.kind || m->placing.active)
		return VGPU_NEVER;
	if (m->move.active)
		t = m->move.done == 0 ? nsec_min(t, m->move.until) : t;
	else if (m->change.active)
		t = nsec_min(t, m->change.until);
	return nsec_min(t, m->look_at);
}

enum vgpu_memory_attention vgpu_memory_attention(const struct vgpu_memory_state *m)
{
	if (m->move.active || m->change.active || m->telling)
		return VGPU_MEMORY_WAITS;
	return m->host || pieces_deadline(m) != VGPU_NEVER ? VGPU_MEMORY_LOOKS : VGPU_MEMORY_ASLEEP;
}

void vgpu_memory_view(const struct vgpu_memory_state *m, struct vgpu_memory_view *out)
{
	struct vgpu_memory local = vgpu_memory_local(&m->table);
	uint32_t i;

	*out = (struct vgpu_memory_view){
		.n_extents = m->table.n,
		.partition = m->partition,
		.counters = m->counters,
		.moving = m->move.active ? m->move.vf : VGPU_NO_VF,
		.epoch = vgpu_residency_epoch(&m->residency),
		.waited = m->residency.wait_max,
	};
	memcpy(out->extents, m->extents, sizeof(out->extents));
	out->partition.free = vgpu_memory_in(&local, VGPU_EXTENT_FREE);
	for (i = 0; i < m->n_vfs; i++)
		out->pinned |= (vgpu_vf_set)homes_is_pinned(m, i) << i;
}
