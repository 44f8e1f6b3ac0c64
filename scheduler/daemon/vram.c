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
/* A guest that has mapped its memory, and has not yet seen its reset, may write while it is being
 * cleared. */
#define TRIES 4u
#define SAMPLE 256u
/* Between pieces of what nobody waits for, while the engine has work. */
#define BACKGROUND_PAUSE (20 * VGPU_MSEC)
#define RETRY_AFTER VGPU_SEC
/* While a change or a move waits for a VF. */
#define LOOK_AGAIN (5 * VGPU_MSEC)

void vram_open(struct vram *v, const struct vgpu_memory_face *ops, struct vgpu_driver *driver,
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
	v->scrubbing = 0;
	v->scrub_now = VGPU_NO_VF;
	v->step = caps->granule;
	v->background_at = 0;
	v->retry_at = 0;
	v->move.active = false;
	v->piece = (struct vram_piece){.kind = VRAM_SETTLE};
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

void vram_scrub(struct vram *v, uint32_t vf, vgpu_nsec now)
{
	uint32_t bit = 1u << vf;

	if (v->scrubbing & bit) {
		/* Once more, from the start: the answer to the first is due as well. */
		vram_tell(v, VGPU_EV_SCRUBBED, vf, 0, now);
		if (v->scrub_now == vf) {
			v->piece.stale = true;
			v->scrubbed = 0;
		}
	}
	v->scrubbing |= bit;
}

static void vf_is_done(struct vram *v, int status, vgpu_nsec now)
{
	uint32_t vf = v->scrub_now;

	v->scrubbing &= ~(1u << vf);
	v->scrub_now = VGPU_NO_VF;
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

/* A piece has come to its end, well or not. */
static void settle_piece(struct vram *v, bool good, vgpu_nsec now)
{
	struct vram_piece p = v->piece;

	v->piece.kind = VRAM_NOTHING;
	if (p.kind == VRAM_SETTLE || p.kind == VRAM_PROBE)
		return;
	if (good && p.kind != VRAM_COPY)
		v->counters.cleared += p.where.size;
	if (p.kind == VRAM_COPY) {
		vram_copied(v, good, now);
	} else if (p.kind == VRAM_CLEAR_FREE) {
		if (good)
			vgpu_memory_scrubbed(&v->table, p.where.offset, p.where.size);
		else
			v->retry_at = now + RETRY_AFTER;
		v->background_at = now + BACKGROUND_PAUSE;
	} else if (p.stale) {
		return;
	} else if (!good || p.kind == VRAM_CLEAR_SAVE) {
		vf_is_done(v, good ? 0 : -EIO, now);
	} else {
		v->scrubbed += p.where.size;
	}
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
		if (r == 0 && !p->stale && ++p->tries < TRIES)
			return issue(v, now);
	}
	settle_piece(v, r == 1, now);
	return 0;
}

static struct vgpu_extent part_of(const struct vram *v, uint64_t offset, uint64_t size)
{
	return (struct vgpu_extent){offset, size < v->step ? size : v->step};
}

/* The next of the VF that the core waits for. */
static struct vram_piece next_of_vf(const struct vram *v)
{
	uint32_t vf = v->scrub_now;
	const struct vgpu_extent *e = &v->partition.vfs[vf], *save = &v->partition.save_area;
	uint64_t slot = save->size / v->n_vfs;

	if (v->scrubbed < e->size)
		return (struct vram_piece){.kind = VRAM_CLEAR_VF,
					   .where = part_of(v, e->offset + v->scrubbed,
							    e->size - v->scrubbed)};
	return (struct vram_piece){.kind = VRAM_CLEAR_SAVE,
				   .where = {save->offset + vf * slot, slot}};
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
	struct vram_piece p = {.kind = VRAM_NOTHING, .where = {0, v->table.granule}};
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

static int start_piece(struct vram *v, vgpu_nsec now)
{
	const struct vgpu_memory_extent *dirty = first_dirty(v);

	if (v->scrubbing && v->scrub_now == VGPU_NO_VF) {
		v->scrub_now = (uint32_t)__builtin_ctz(v->scrubbing);
		v->scrubbed = 0;
	}
	if (v->scrubbing) {
		v->piece = next_of_vf(v);
		if (v->piece.where.size == 0) {
			v->piece.kind = VRAM_NOTHING;
			vf_is_done(v, 0, now);
		}
	} else if (vram_may_copy(v)) {
		v->piece = (struct vram_piece){.kind = VRAM_COPY,
					       .from = v->move.from + v->move.done,
					       .where = part_of(v, v->move.to + v->move.done,
								v->move.size - v->move.done)};
	} else if (dirty && now >= v->retry_at &&
		   (v->request || v->swap_waits || now >= v->background_at || engine_is_idle(v))) {
		v->piece = (struct vram_piece){.kind = VRAM_CLEAR_FREE,
					       .where = part_of(v, dirty->offset, dirty->size)};
	} else if (!v->request && !v->move.active) {
		v->piece = probe(v);
	}
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

	if (v->piece.kind)
		return v->piece.look_at;
	if (v->scrubbing)
		return 0;
	if (first_dirty(v)) {
		vgpu_nsec next = v->background_at > v->retry_at ? v->background_at : v->retry_at;

		t = next < t ? next : t;
	}
	if (v->move.active && v->move.until < t)
		t = v->move.until;
	return v->look_at_all < t ? v->look_at_all : t;
}
