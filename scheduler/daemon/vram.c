/* SPDX-License-Identifier: MIT */
#include "vram.h"

#include <errno.h>
#include <string.h>

/* What a piece should take: half of a short slice, so that what goes on beside it is not delayed by
 * more. */
#define PIECE_TIME VGPU_MSEC
#define LARGEST_PIECE 16u /* granules */
#define FIRST_LOOK (200 * VGPU_USEC)
#define NEXT_LOOK (500 * VGPU_USEC)
#define SAMPLE 256u
/* Resets that a VF may have at once, and how long it takes until it may have one more. */
#define RESETS 9u
#define RESET_REFILL (7 * VGPU_SEC)
/* Between pieces of what nobody waits for, while the engine has work. */
#define BACKGROUND_PAUSE (20 * VGPU_MSEC)
#define RETRY_AFTER VGPU_SEC
/* While a change or a move waits for a VF. */
#define LOOK_AGAIN (5 * VGPU_MSEC)

void vram_open(struct vram *v, const struct vgpu_driver_ops *ops, struct vgpu_driver *driver,
	       const struct vgpu_driver_caps *caps, const struct vgpu_driver_found *found,
	       const struct vgpu_driver_config *config)
{
	const struct vgpu_partition *p = &found->partition;
	uint64_t begin = 0;
	uint32_t i;

	for (i = 0; v->n_vfs == 0 && i < config->n_vfs; i++)
		v->usual[i] = found->planned.vfs[i].size;
	v->ops = ops;
	v->driver = driver;
	v->n_vfs = config->n_vfs;
	v->placement = config->placement;
	v->partition = *p;
	memset(v->scrubs, 0, sizeof(v->scrubs));
	v->turn = 0;
	v->free_tries = 0;
	v->step = caps->granule;
	v->background_at = 0;
	v->retry_at = 0;
	v->move.active = false;
	v->piece = (struct vram_piece){.kind = VRAM_SETTLE, .vf = VGPU_NO_VF};
	v->host = caps->host;
	v->pinned = config->pinned;
	v->swap_at = 0;
	v->observe_at = 0;
	v->look_at_all = 0;
	vgpu_residency_init(&v->residency, v->n_vfs, v->residency.epoch);
	vgpu_memory_init(&v->table, v->extents, VRAM_EXTENTS, caps->memory, caps->granule);
	vgpu_memory_extend(&v->table, caps->host);
	if (p->pf.size)
		vgpu_memory_reserve(&v->table, VRAM_PF, p->pf.offset, p->pf.size);
	for (i = 0; i < v->n_vfs; i++)
		if (p->vfs[i].size)
			vgpu_memory_reserve(&v->table, i, p->vfs[i].offset, p->vfs[i].size);
	vram_find_homes(v);
	/* What is nobody's may have been somebody's. */
	for (i = 0; i < v->table.n; i++) {
		begin = v->extents[i].offset;
		if (v->extents[i].state != VGPU_EXTENT_FREE ||
		    (begin >= v->table.local && found->host_is_new))
			continue;
		vgpu_memory_reserve(&v->table, VRAM_PF, begin, v->extents[i].size);
		vgpu_memory_release(&v->table, begin);
	}
}

void vram_tell(struct vram *v, enum vgpu_event_type type, uint32_t vf, uint32_t code, vgpu_nsec now)
{
	v->sink(v->data, &(struct vgpu_event){.now = now, .type = type, .vf = vf, .code = code});
	v->look_at_all = now;
}

/* Whether a VF is reset more often than is its due. */
static bool overdraws(struct vram_scrub *s, vgpu_nsec now)
{
	vgpu_nsec full = s->resets_at > now ? s->resets_at : now;

	if (full - now > (RESETS - 1) * RESET_REFILL)
		return true;
	s->resets_at = full + RESET_REFILL;
	return false;
}

/* Bytes of a VF's partition and of the slot of its context. */
static uint64_t to_clear(const struct vram *v, uint32_t vf)
{
	return v->partition.vfs[vf].size + v->partition.save_area.size / v->n_vfs;
}

void vram_scrub(struct vram *v, uint32_t vf, vgpu_nsec now)
{
	struct vram_scrub *s = &v->scrubs[vf];

	/* All of it is to be cleared since now: the answer to the first is due as well. */
	if (s->wanted)
		vram_tell(v, VGPU_EV_SCRUBBED, vf, 0, now);
	if (v->piece.vf == vf)
		v->piece.stale = true;
	s->again = s->wanted;
	s->spare = overdraws(s, now);
	s->at = s->wanted ? s->at : 0;
	s->left = to_clear(v, vf);
	s->tries = 0;
	s->wanted = true;
}

static void vf_is_done(struct vram *v, uint32_t vf, int status, vgpu_nsec now)
{
	v->scrubs[vf].wanted = false;
	v->sink(v->data, &(struct vgpu_event){
				 .now = now, .type = VGPU_EV_SCRUBBED, .vf = vf, .value = status});
	v->look_at_all = now;
}

/* Whether a sample is as it should be: clear, or as its original. 1, 0, or negative. */
static int look(struct vram *v, uint64_t offset)
{
	static const uint8_t zeros[SAMPLE];
	const struct vram_piece *p = &v->piece;
	uint8_t here[SAMPLE], there[SAMPLE];
	int r = v->ops->read(v->driver, p->where.offset + offset, here, SAMPLE);

	if (r < 0)
		return r;
	if (p->kind != VRAM_COPY && p->kind != VRAM_PROBE)
		return memcmp(here, zeros, SAMPLE) == 0;
	r = v->ops->read(v->driver, p->from + offset, there, SAMPLE);
	return r < 0 ? r : memcmp(here, there, SAMPLE) == 0;
}

/* The beginning, the end, and in each granule a place that is another each time. */
static int verify(struct vram *v)
{
	uint64_t size = v->piece.where.size, granule = v->table.granule, at;
	uint64_t h = v->piece.where.offset ^ v->piece.began;
	int r = look(v, 0);

	if (r == 1)
		r = look(v, size - SAMPLE);
	for (at = 0; at + granule <= size && r == 1; at += granule) {
		h = h * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		r = look(v, at + (h >> 16) % (granule - SAMPLE) / 64 * 64);
	}
	return r;
}

static int issue(struct vram *v, vgpu_nsec now)
{
	struct vram_piece *p = &v->piece;

	p->began = now;
	p->look_at = now + FIRST_LOOK;
	return p->kind == VRAM_COPY || p->kind == VRAM_PROBE
		       ? v->ops->copy(v->driver, (struct vgpu_extent){p->from, p->where.size},
				      p->where.offset)
		       : v->ops->clear(v->driver, p->where);
}

/* Pieces grow and shrink with what they take. */
static void adapt(struct vram *v, vgpu_nsec took)
{
	uint64_t granule = v->table.granule;

	if (took > 2 * PIECE_TIME && v->step > granule)
		v->step = v->step / 2 / granule * granule;
	else if (took < PIECE_TIME && v->step < LARGEST_PIECE * granule)
		v->step *= 2;
}

/* How fast host memory is. */
static void measure_rate(struct vram *v, vgpu_nsec took)
{
	const struct vram_piece *p = &v->piece;
	bool from_host = p->from >= v->table.local, to_host = p->where.offset >= v->table.local;

	if ((p->kind == VRAM_COPY || p->kind == VRAM_PROBE) && from_host != to_host && took > 0)
		v->counters.swap_rate[from_host] =
			(uint64_t)((unsigned __int128)p->where.size * VGPU_SEC / took);
}

/* A piece of a VF that is being cleared. */
static void settle_scrub(struct vram *v, const struct vram_piece *p, bool good, vgpu_nsec now)
{
	struct vram_scrub *s = &v->scrubs[p->vf];

	if (p->stale)
		return;
	if (!good) {
		if (++s->tries == VRAM_TRIES)
			vf_is_done(v, p->vf, -EIO, now);
		return;
	}
	s->tries = 0;
	s->left -= p->where.size;
	s->at = (s->at + p->where.size) % to_clear(v, p->vf);
	if (s->left == 0)
		vf_is_done(v, p->vf, 0, now);
}

/* A piece of what is nobody's. */
static void settle_free(struct vram *v, const struct vram_piece *p, bool good, vgpu_nsec now)
{
	if (!good && ++v->free_tries < VRAM_TRIES)
		return;
	v->free_tries = 0;
	if (good)
		vgpu_memory_scrubbed(&v->table, p->where.offset, p->where.size);
	else
		v->retry_at = now + RETRY_AFTER;
	v->background_at = now + BACKGROUND_PAUSE;
}

/* A piece has come to its end, well or not. */
static void settle_piece(struct vram *v, bool good, vgpu_nsec now)
{
	struct vram_piece p = v->piece;

	v->piece = (struct vram_piece){.kind = VRAM_NOTHING, .vf = VGPU_NO_VF};
	if (good && (p.kind == VRAM_CLEAR_VF || p.kind == VRAM_CLEAR_FREE))
		v->counters.cleared += p.where.size;
	if (p.kind == VRAM_COPY)
		vram_copied(v, &p, good, now);
	else if (p.kind == VRAM_CLEAR_FREE)
		settle_free(v, &p, good, now);
	else if (p.kind == VRAM_CLEAR_VF)
		settle_scrub(v, &p, good, now);
}

static int finish_piece(struct vram *v, vgpu_nsec now)
{
	struct vram_piece *p = &v->piece;
	bool failed = false;
	int r = v->ops->busy(v->driver, &failed);

	if (r < 0)
		return r;
	if (r > 0) {
		p->look_at = now + NEXT_LOOK;
		return 0;
	}
	if (p->kind != VRAM_SETTLE) {
		if (p->where.size == v->step)
			adapt(v, now - p->began);
		measure_rate(v, now - p->began);
		r = failed ? 0 : verify(v);
		if (r < 0)
			return r;
		v->counters.failed_pieces += r == 0;
	}
	settle_piece(v, r == 1, now);
	return 0;
}

static struct vgpu_extent part_of(const struct vram *v, uint64_t offset, uint64_t size)
{
	return (struct vgpu_extent){offset, size < v->step ? size : v->step};
}

/* The next piece of a VF that is being cleared. One that is reset again and again has small ones,
 * so that others wait for no more than a granule of it. */
static struct vram_piece next_of_vf(const struct vram *v, uint32_t vf)
{
	const struct vram_scrub *s = &v->scrubs[vf];
	const struct vgpu_extent *e = &v->partition.vfs[vf], *save = &v->partition.save_area;
	uint64_t slot = save->size / v->n_vfs;
	struct vram_piece p = {.kind = VRAM_CLEAR_VF, .vf = vf};

	if (s->at >= e->size) {
		p.where = (struct vgpu_extent){save->offset + vf * slot, slot};
		return p;
	}
	p.where = part_of(v, e->offset + s->at, e->size - s->at);
	if (p.where.size > s->left)
		p.where.size = s->left;
	if ((s->again || s->spare) && p.where.size > v->table.granule)
		p.where.size = v->table.granule;
	return p;
}

static const struct vgpu_memory_extent *first_dirty(const struct vram *v)
{
	uint32_t i;

	for (i = 0; i < v->table.n; i++)
		if (v->extents[i].state == VGPU_EXTENT_SCRUBBING)
			return &v->extents[i];
	return NULL;
}

/* Once each way, if there is room. */
static struct vram_piece probe(const struct vram *v)
{
	struct vram_piece p = {.kind = VRAM_NOTHING,
			       .vf = VGPU_NO_VF,
			       .where = {0, v->table.granule}};
	uint64_t free[2] = {UINT64_MAX, UINT64_MAX};
	bool back = v->counters.swap_rate[0] > 0;
	uint32_t i;

	if (!v->host || v->counters.swap_rate[1])
		return p;
	for (i = 0; i < v->table.n; i++)
		if (v->extents[i].state == VGPU_EXTENT_FREE)
			free[v->extents[i].offset >= v->table.local] = v->extents[i].offset;
	if (free[0] == UINT64_MAX || free[1] == UINT64_MAX)
		return p;
	p.kind = VRAM_PROBE;
	p.from = free[back];
	p.where.offset = free[!back];
	return p;
}

static bool engine_is_idle(const struct vram *v)
{
	struct vgpu_core_view view;

	vgpu_core_view(v->core, &view);
	return view.phase == VGPU_PHASE_PARKED;
}

/* Whether a turn is wanted by somebody who waits for it; or, SPARE, by one who does not. */
static bool wants_turn(const struct vram *v, uint32_t turn, bool spare, vgpu_nsec now)
{
	bool waits = v->request || v->swap_waits;

	if (turn == VRAM_TURN_MOVE)
		return !spare && vram_may_copy(v);
	if (turn != VRAM_TURN_FREE)
		return v->scrubs[turn].wanted && v->scrubs[turn].spare == spare;
	return first_dirty(v) && now >= v->retry_at && waits != spare &&
	       (waits || now >= v->background_at || engine_is_idle(v));
}

static struct vram_piece next_of(const struct vram *v, uint32_t turn)
{
	const struct vgpu_memory_extent *dirty = first_dirty(v);
	const struct vram_move *m = &v->move;

	if (turn == VRAM_TURN_MOVE)
		return (struct vram_piece){.kind = VRAM_COPY,
					   .vf = VGPU_NO_VF,
					   .from = m->from + m->done,
					   .where = part_of(v, m->to + m->done, m->size - m->done)};
	if (turn == VRAM_TURN_FREE)
		return (struct vram_piece){.kind = VRAM_CLEAR_FREE,
					   .vf = VGPU_NO_VF,
					   .where = part_of(v, dirty->offset, dirty->size)};
	return next_of_vf(v, turn);
}

/* The piece of the next whose turn it is, if there is one. */
static bool take_turn(struct vram *v, bool spare, vgpu_nsec now)
{
	uint32_t i, turn;

	for (i = 1; i <= VRAM_TURNS; i++) {
		turn = (v->turn + i) % VRAM_TURNS;
		if (!wants_turn(v, turn, spare, now))
			continue;
		v->turn = turn;
		v->piece = next_of(v, turn);
		return true;
	}
	return false;
}

static int start_piece(struct vram *v, vgpu_nsec now)
{
	uint32_t i;

	for (i = 0; i < v->n_vfs; i++)
		if (v->scrubs[i].wanted && v->scrubs[i].left == 0)
			vf_is_done(v, i, 0, now); /* it has nothing */
	if (!take_turn(v, false, now) && !take_turn(v, true, now) && !v->request && !v->move.active)
		v->piece = probe(v);
	return v->piece.kind ? issue(v, now) : 0;
}

int vram_run(struct vram *v, vgpu_nsec now)
{
	int r = 0;

	if (v->piece.kind && now < v->piece.look_at)
		return 0;
	/* What is waited for may come about without our being told. */
	v->look_at_all = v->request || v->move.active ? now + LOOK_AGAIN : VGPU_NEVER;
	if (v->piece.kind) {
		r = finish_piece(v, now);
	}
	if (r == 0 && !v->piece.kind)
		vram_advance(v, now);
	if (r == 0 && !v->piece.kind)
		r = start_piece(v, now);
	return r;
}

vgpu_nsec vram_deadline(const struct vram *v)
{
	vgpu_nsec t = v->request ? v->until : VGPU_NEVER;
	uint32_t i;

	if (v->piece.kind)
		return v->piece.look_at;
	for (i = 0; i < v->n_vfs; i++)
		if (v->scrubs[i].wanted)
			return 0;
	if (first_dirty(v)) {
		vgpu_nsec next = v->background_at > v->retry_at ? v->background_at : v->retry_at;

		t = next < t ? next : t;
	}
	if (v->move.active && v->move.until < t)
		t = v->move.until;
	return v->look_at_all < t ? v->look_at_all : t;
}
