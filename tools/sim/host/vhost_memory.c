/* SPDX-License-Identifier: MIT */
/*
 * The memory of the device, in cells of a granule; each cell says which data was written there
 * last. The real reducer (vgpu/memory_step.h) runs beside the core. Its actions are carried out
 * here, some of them fail, and the core gets its messages late. After each of its steps invariant
 * 20 of the list in docs/architecture.md is checked, against the cells, which know nothing of the
 * reducer's table. Random numbers come from a source of their own, so that the rest of a run is the
 * same without this model.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vgpu/memory_step.h"
#include "vhost_private.h"

#define GRANULE (UINT64_C(1) << 20)
#define PF_CELLS 2u
#define VF_CELLS 2u /* of each VF at first */
#define MAX_CELLS (PF_CELLS + 6 * VGPU_GPU_MAX_VFS)
#define TELLS 256u
#define TELL_EVERY VGPU_MSEC
#define LATEST_TELL (100 * VGPU_USEC)
#define CHANGE_EVERY (40 * VGPU_MSEC)

/* A message to the core; messages stay in order. */
struct tell {
	vgpu_nsec at;
	struct vgpu_event event;
};

struct vhost_memory {
	struct vgpu_memory_state *state;
	struct vgpu_memory_output out;
	struct vgpu_memory_view view;
	uint64_t rng;
	uint64_t slot;	      /* bytes of each VF's saved context */
	uint32_t local, host; /* cells */

	uint64_t cells[MAX_CELLS];		     /* last value written; 0: clear */
	uint64_t saved[VGPU_GPU_MAX_VFS];	     /* the same for the save area */
	uint64_t marks[VGPU_GPU_MAX_VFS], last_mark; /* last value that each guest has written */
	struct vgpu_extent table[VGPU_GPU_MAX_VFS];  /* the GPU's own table */

	struct {
		bool at_work, copies, fails, early;
		struct vgpu_extent where;
		uint64_t from;
		vgpu_nsec ends;
	} piece;
	struct tell tells[TELLS];
	uint32_t head, tail;
	vgpu_vf_set told; /* VFs of which the core got a message since the reducer was told
			  about them */
	uint32_t
		scrubs[VGPU_GPU_MAX_VFS]; /* requested by the core, not yet passed to the reducer */
	bool late;			  /* the reducer may have to be told something new */
	vgpu_nsec tell_at, change_at;
	bool asked; /* a change is under way */
	uint32_t id;
	struct vgpu_memory_change change;
	uint64_t was; /* the size that its VF had before */
	uint64_t n_changes, n_moves;
};

static uint64_t any(struct vhost_memory *m, uint64_t below)
{
	m->rng = m->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return below ? (m->rng >> 33) % below : 0;
}

static bool goes_wrong(struct vhost *h)
{
	return any(h->gpu_memory, 1000000) < h->memory_fails_ppm;
}

static bool is_out(const struct vhost_memory *m, uint32_t vf)
{
	return m->table[vf].offset >= m->local * GRANULE;
}

/* Returns whether all of VF's memory was last written as MARK. */
static bool holds(const struct vhost_memory *m, uint32_t vf, uint64_t mark)
{
	uint64_t i, first = m->table[vf].offset / GRANULE;

	for (i = 0; i < m->table[vf].size / GRANULE; i++)
		if (m->cells[first + i] != mark)
			return false;
	return true;
}

static void write_all(struct vhost_memory *m, uint32_t vf)
{
	uint64_t i, first = m->table[vf].offset / GRANULE;

	m->marks[vf] = ++m->last_mark;
	for (i = 0; i < m->table[vf].size / GRANULE; i++)
		m->cells[first + i] = m->marks[vf];
}

void memory_writes(struct vhost *h, uint32_t vf)
{
	if (h->gpu_memory)
		write_all(h->gpu_memory, vf);
}

void memory_command(struct vhost *h, uint32_t vf, enum vgpu_command command)
{
	struct vhost_memory *m = h->gpu_memory;

	if (is_out(m, vf) && m->table[vf].size && command != VGPU_CMD_SHUTDOWN)
		vhost_fail(h, "%s for VF %u, whose memory is swapped out",
			   vgpu_command_names[command], vf);
	if (command == VGPU_CMD_INIT && (!holds(m, vf, 0) || m->saved[vf]))
		vhost_fail(h, "VF %u begins on memory that was not cleared", vf);
	if (command == VGPU_CMD_INIT)
		m->marks[vf] = 0;
	if (command == VGPU_CMD_RUN && h->vfs[vf].up && !holds(m, vf, m->marks[vf]))
		vhost_fail(h, "VF %u has lost what it wrote", vf);
	if (command == VGPU_CMD_IDLE && h->vfs[vf].up)
		write_all(m, vf);
	if (command == VGPU_CMD_SAVE)
		m->saved[vf] = m->marks[vf] ? m->marks[vf] : 1;
}

void memory_scrub(struct vhost *h, uint32_t vf)
{
	h->gpu_memory->scrubs[vf]++;
}

/* Checks invariant 20: no byte has two owners, free memory is clear, and the GPU's table and the
 * reducer's agree. */
static void check(struct vhost *h)
{
	struct vhost_memory *m = h->gpu_memory;
	struct vgpu_memory_view *view = &m->view;
	struct vgpu_memory table = {.extents = view->extents,
				    .capacity = VGPU_MEMORY_EXTENTS,
				    .total = (m->local + m->host) * GRANULE,
				    .local = m->local * GRANULE,
				    .granule = GRANULE};
	uint8_t owners[MAX_CELLS] = {0};
	const char *wrong;
	uint32_t i;
	uint64_t c;

	vgpu_memory_view(m->state, view);
	table.n = view->n_extents;
	wrong = vgpu_memory_check(&table);
	if (wrong)
		vhost_fail(h, "the table of memory: %s", wrong);
	for (i = 0; i < h->n_vfs; i++)
		for (c = 0; c < m->table[i].size / GRANULE; c++)
			if (owners[m->table[i].offset / GRANULE + c]++)
				vhost_fail(h, "VF %u: its memory overlaps another VF's", i);
	for (i = 0; i < view->n_extents; i++) {
		const struct vgpu_memory_extent *e = &view->extents[i];
		const struct vgpu_extent *is = &m->table[e->owner % VGPU_GPU_MAX_VFS];

		for (c = 0; c < e->size / GRANULE && e->state == VGPU_EXTENT_FREE; c++)
			if (m->cells[e->offset / GRANULE + c])
				vhost_fail(h, "free memory is not clear");
		if (e->state == VGPU_EXTENT_OWNED && e->owner != VGPU_MEMORY_PF &&
		    (is->offset != e->offset || is->size != e->size))
			vhost_fail(h, "VF %u: the GPU's table and the reducer's differ", e->owner);
	}
}

static void send_event(struct vhost *h, enum vgpu_event_type type,
		       const struct vgpu_memory_action *a, uint32_t code)
{
	struct vhost_memory *m = h->gpu_memory;
	vgpu_nsec at = h->now + any(m, LATEST_TELL) * any(m, 2), before;

	before = m->head != m->tail ? m->tells[(m->tail - 1) % TELLS].at : 0;
	if (m->tail - m->head == TELLS) {
		vhost_fail(h, "the reducer sends too many messages at once");
		return;
	}
	m->tells[m->tail++ % TELLS] = (struct tell){
		.at = at > before ? at : before,
		.event = {.type = type, .vf = a->vf, .code = code, .value = a->value}};
}

static int place(struct vhost *h, const struct vgpu_memory_action *a)
{
	struct vhost_memory *m = h->gpu_memory;
	enum vgpu_context context = h->vfs[a->vf].context;
	uint64_t end = a->where.offset + a->where.size;
	bool moves = a->where.size == m->table[a->vf].size;

	if (context != VGPU_CTX_NONE && !(context == VGPU_CTX_SAVED && moves))
		vhost_fail(h, "VF %u: its memory is changed while its context is %s", a->vf,
			   vgpu_context_names[context]);
	if (a->where.size &&
	    (a->where.offset < PF_CELLS * GRANULE || end > (m->local + m->host) * GRANULE ||
	     (a->where.offset < m->local * GRANULE && end > m->local * GRANULE)))
		vhost_fail(h, "VF %u: its memory lies outside of the GPU's and the host's", a->vf);
	if (goes_wrong(h))
		return -EIO;
	m->n_moves += moves;
	m->table[a->vf] = a->where;
	return 0;
}

/* Carries out a piece. If it is carried out early, data that is written meanwhile stays. */
static void take_effect(struct vhost *h)
{
	struct vhost_memory *m = h->gpu_memory;
	uint64_t to = m->piece.where.offset / GRANULE, from = m->piece.from / GRANULE;
	/* A piece that fails has done half of its work. */
	uint64_t i, n = m->piece.where.size / GRANULE >> m->piece.fails;

	if (m->piece.where.size == m->slot && !m->piece.fails)
		m->saved[(m->piece.where.offset - (PF_CELLS * GRANULE - h->n_vfs * m->slot)) /
			 m->slot] = 0;
	for (i = 0; i < n; i++)
		m->cells[to + i] = m->piece.copies ? m->cells[from + i] : 0;
}

static void start_piece(struct vhost *h, const struct vgpu_memory_action *a)
{
	struct vhost_memory *m = h->gpu_memory;

	if (m->piece.at_work)
		vhost_fail(h, "two pieces at once");
	m->piece.at_work = true;
	m->piece.copies = a->type == VGPU_MA_COPY;
	m->piece.fails = goes_wrong(h);
	m->piece.where = a->where;
	m->piece.from = a->from;
	m->piece.ends = h->now + any(m, h->scrub.max / 4 + 1);
	m->piece.early = any(m, 2);
	if (m->piece.early)
		take_effect(h);
}

static void on_answer(struct vhost *h, const struct vgpu_memory_action *a)
{
	struct vhost_memory *m = h->gpu_memory;
	uint64_t size = m->table[m->change.vf].size;

	if (!m->asked || a->id != m->id)
		vhost_fail(h, "an answer to a change that was not requested");
	m->asked = false;
	if (m->change.what != VGPU_MEMORY_SET)
		return;
	if (a->value == 0 && size != m->change.size)
		vhost_fail(h, "VF %u does not have the memory that was set", m->change.vf);
	if (a->value < 0 && size != m->was)
		vhost_fail(h, "VF %u: a refused change has changed its memory", m->change.vf);
}

static void step(struct vhost *h, struct vgpu_memory_event event)
{
	static const enum vgpu_event_type keeps[] = {VGPU_EV_HOLD, VGPU_EV_AWAY};
	struct vhost_memory *m = h->gpu_memory;
	bool placed;
	uint32_t i;
	int r = 0;

	do {
		placed = false;
		event.now = h->now;
		vgpu_memory_step(m->state, &event, &m->out);
		for (i = 0; i < m->out.n; i++) {
			const struct vgpu_memory_action *a = &m->out.actions[i];

			switch (a->type) {
			case VGPU_MA_CLEAR:
			case VGPU_MA_COPY:
				start_piece(h, a);
				break;
			case VGPU_MA_PLACE:
				r = place(h, a);
				placed = true;
				break;
			case VGPU_MA_HOLD:
			case VGPU_MA_RELEASE:
				send_event(h, keeps[a->code], a, a->type == VGPU_MA_HOLD);
				break;
			case VGPU_MA_RESET:
				send_event(h, VGPU_EV_RESET_VF, a, 0);
				break;
			case VGPU_MA_SCRUBBED:
				send_event(h, VGPU_EV_SCRUBBED, a, 0);
				break;
			case VGPU_MA_ANSWER:
				on_answer(h, a);
				break;
			}
		}
		event = (struct vgpu_memory_event){.type = VGPU_ME_PLACED, .value = r};
		if (!placed)
			check(h);
	} while (placed);
}

/* Tells the reducer the state of all VFs. */
static void observe(struct vhost *h)
{
	struct vhost_memory *m = h->gpu_memory;
	struct vgpu_core_view core;
	struct vgpu_vf_view view;
	vgpu_vf_set told = m->told;
	uint32_t i;

	m->told = 0;
	m->late = false;
	m->tell_at = h->now + TELL_EVERY;
	vgpu_core_view(h->core, &core);
	for (i = 0; i < h->n_vfs; i++) {
		vgpu_core_vf_view(h->core, i, &view);
		step(h, (struct vgpu_memory_event){.type = VGPU_ME_VF,
						   .vf = i,
						   .code = told >> i & 1,
						   .is = vgpu_memory_vf_of(&view)});
	}
	step(h, (struct vgpu_memory_event){.type = VGPU_ME_ENGINE,
					   .code = core.phase != VGPU_PHASE_PARKED});
}

void memory_follow(struct vhost *h)
{
	struct vhost_memory *m = h->gpu_memory;

	if (m->late && vgpu_memory_attention(m->state) == VGPU_MEMORY_WAITS)
		observe(h);
}

void memory_core_stepped(struct vhost *h)
{
	h->gpu_memory->late = true;
}

/* Delivers the next message to the core. */
static void deliver(struct vhost *h)
{
	struct vhost_memory *m = h->gpu_memory;
	struct vgpu_event e = m->tells[m->head++ % TELLS].event;
	uint32_t i;

	if (e.type == VGPU_EV_SCRUBBED) {
		h->vfs[e.vf].scrubs--;
		h->vfs[e.vf].dirty = h->vfs[e.vf].scrubs > 0;
	}
	vhost_event(h, &e);
	for (i = m->head; i != m->tail; i++)
		if (m->tells[i % TELLS].event.vf == e.vf &&
		    m->tells[i % TELLS].event.type != VGPU_EV_SCRUBBED)
			return;
	if (e.type != VGPU_EV_SCRUBBED)
		m->told |= VGPU_VF_BIT(e.vf);
}

static void finish_piece(struct vhost *h)
{
	struct vhost_memory *m = h->gpu_memory;

	if (!m->piece.early)
		take_effect(h);
	m->piece.at_work = false;
	observe(h);
	step(h,
	     (struct vgpu_memory_event){.type = VGPU_ME_DONE, .value = m->piece.fails ? -EIO : 0});
}

/* Draws a change, as an operator or a VM that starts would request it. */
static void request_change(struct vhost *h)
{
	struct vhost_memory *m = h->gpu_memory;

	m->change_at = h->now + 1 + any(m, 2 * CHANGE_EVERY);
	if (m->asked)
		return;
	observe(h);
	m->change = (struct vgpu_memory_change){
		.what = any(m, 6) ? VGPU_MEMORY_SET : (enum vgpu_memory_what)any(m, 3),
		.vf = (uint32_t)any(m, h->n_vfs),
		.size = any(m, 5) * GRANULE,
		.force = h->memory == VHOST_MEMORY_FORCED && any(m, 4) == 0,
	};
	m->asked = true;
	m->id++;
	m->n_changes++;
	m->was = m->table[m->change.vf].size;
	step(h, (struct vgpu_memory_event){.type = VGPU_ME_CHANGE,
					   .code = m->id,
					   .change = m->change});
}

static bool has_scrub(const struct vhost *h, uint32_t *vf)
{
	for (*vf = 0; *vf < h->n_vfs; ++*vf)
		if (h->gpu_memory->scrubs[*vf])
			return true;
	return false;
}

vgpu_nsec memory_next(const struct vhost *h)
{
	const struct vhost_memory *m = h->gpu_memory;
	vgpu_nsec t;
	uint32_t vf;

	t = sooner(vgpu_memory_deadline(m->state), m->change_at);
	if (has_scrub(h, &vf) || m->told)
		return h->now;
	if (m->piece.at_work)
		t = sooner(t, m->piece.ends);
	if (m->head != m->tail)
		t = sooner(t, m->tells[m->head % TELLS].at);
	if (m->late && vgpu_memory_attention(m->state) == VGPU_MEMORY_LOOKS)
		t = sooner(t, m->tell_at);
	return t;
}

void memory_due(struct vhost *h)
{
	struct vhost_memory *m = h->gpu_memory;
	uint32_t vf;

	if (m->head != m->tail && m->tells[m->head % TELLS].at <= h->now) {
		deliver(h);
		return;
	}
	if (m->told || (m->late && vgpu_memory_attention(m->state) != VGPU_MEMORY_ASLEEP)) {
		observe(h);
	} else if (has_scrub(h, &vf)) {
		m->scrubs[vf]--;
		step(h, (struct vgpu_memory_event){.type = VGPU_ME_SCRUB, .vf = vf});
	} else if (m->piece.at_work && m->piece.ends <= h->now) {
		finish_piece(h);
	} else if (m->change_at <= h->now) {
		request_change(h);
	} else {
		step(h, (struct vgpu_memory_event){.type = VGPU_ME_TIMER});
	}
}

/* Creates the model. Its memory holds unknown data at first. */
static struct vhost_memory *make(struct vhost *h)
{
	struct vhost_memory *m = calloc(1, sizeof(*m));
	bool swaps = h->memory == VHOST_MEMORY_FORCED && h->seed % 3 == 0;
	uint32_t i, room;

	m->rng = h->seed * 977 + 5;
	m->slot = PF_CELLS * GRANULE / 2 / VGPU_GPU_MAX_VFS / 4096 * 4096;
	room = h->n_vfs * VF_CELLS;
	m->local = PF_CELLS + (swaps ? room / 2 + VF_CELLS : room + room / 2 + 1);
	m->host = swaps ? 2 * room : 0;
	for (i = PF_CELLS; i < m->local + m->host; i++)
		m->cells[i] = ++m->last_mark;
	for (i = 0; i < h->n_vfs; i++) {
		uint32_t at = PF_CELLS + i * VF_CELLS;

		/* VFs that do not fit are in host memory. */
		at = at + VF_CELLS > m->local ? m->local + i * VF_CELLS : at;
		m->table[i] = (struct vgpu_extent){at * GRANULE, VF_CELLS * GRANULE};
		m->saved[i] = ++m->last_mark;
	}
	m->change_at =
		h->memory >= VHOST_MEMORY_CHANGES ? h->now + any(m, CHANGE_EVERY) : VGPU_NEVER;
	m->state = calloc(1, vgpu_memory_state_size());
	return m;
}

void memory_begin(struct vhost *h)
{
	struct vgpu_memory_config config = {.n_vfs = h->n_vfs, .granule = GRANULE};
	struct vhost_memory *m = h->gpu_memory;

	if (!h->memory || h->n_vfs > VGPU_GPU_MAX_VFS)
		return;
	if (!m)
		m = h->gpu_memory = make(h);
	/* A restarted vgpud knows only what the GPU's own table says. */
	memset(m->state, 0, vgpu_memory_state_size());
	memset(m->scrubs, 0, sizeof(m->scrubs));
	m->head = m->tail = 0;
	m->told = 0;
	m->asked = false;
	m->late = true;
	m->tell_at = h->now;
	config.total = m->local * GRANULE;
	config.host = m->host * GRANULE;
	config.epoch = 20 * VGPU_MSEC;
	config.partition.pf = (struct vgpu_extent){0, PF_CELLS * GRANULE};
	config.partition.save_area =
		(struct vgpu_extent){PF_CELLS * GRANULE - h->n_vfs * m->slot, h->n_vfs * m->slot};
	memcpy(config.partition.vfs, m->table, sizeof(m->table));
	vgpu_memory_open(m->state, &config);
	/* A piece that the previous vgpud has begun ends now. Without such a piece, an empty one
	 * ends. */
	if (!m->piece.at_work) {
		m->piece.at_work = true;
		m->piece.where = (struct vgpu_extent){0, 0};
		m->piece.early = true;
		m->piece.ends = h->now;
	}
}

void memory_added(struct vhost *h, uint32_t vf)
{
	struct vhost_memory *m = h->gpu_memory;

	if (m && is_out(m, vf))
		event_vf(h, VGPU_EV_AWAY, vf, 1, 0);
}

void memory_end(struct vhost *h)
{
	if (h->gpu_memory)
		free(h->gpu_memory->state);
	free(h->gpu_memory);
	h->gpu_memory = NULL;
}

void vhost_memory_did(const struct vhost *h, uint64_t *changes, uint64_t *moves)
{
	*changes = h->gpu_memory ? h->gpu_memory->n_changes : 0;
	*moves = h->gpu_memory ? h->gpu_memory->n_moves : 0;
}
