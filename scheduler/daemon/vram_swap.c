/* SPDX-License-Identifier: MIT */
/*
 * Where VFs have more memory together than the GPU: who is on it (vgpu/residency.h), and the swaps
 * that follow. A swap is a move between a VF's place on the GPU and its home in host memory, with
 * the same steps, the same looks, and the same way out at each of them. A VF whose memory is out
 * keeps away from the engine; all others go on.
 */
#include <string.h>

#include "engine.h"

/* To look at all VFs takes some microseconds, which not every slice need pay. */
#define OBSERVE_EVERY VGPU_MSEC

static bool is_pinned(const struct vram *v, uint32_t vf, const struct vgpu_vf_view *view)
{
	if (!v->host || (v->pinned | v->swappable) >> vf & 1)
		return !v->host || v->pinned >> vf & 1;
	return view->bound.budget > 0;
}

static bool can_leave(const struct vram *v, uint32_t vf, const struct vgpu_vf_view *view)
{
	return !is_pinned(v, vf, view) && v->partition.homes[vf].size > 0 &&
	       (view->state == VGPU_VF_ACTIVE || view->state == VGPU_VF_AVAIL ||
		view->state == VGPU_VF_BACKOFF || view->state == VGPU_VF_QUARANTINED);
}

bool vram_is_pinned(const struct vram *v, uint32_t vf)
{
	struct vgpu_vf_view view = vram_vf(v, vf);

	return is_pinned(v, vf, &view);
}

bool vram_can_leave(const struct vram *v, uint32_t vf)
{
	struct vgpu_vf_view view = vram_vf(v, vf);

	return can_leave(v, vf, &view);
}

uint64_t vram_most(const struct vram *v, uint32_t vf)
{
	uint64_t taken = 0, largest = 0, room = v->table.local - v->partition.pf.size;
	bool pinned = vram_is_pinned(v, vf);
	uint32_t i;

	for (i = 0; i < v->n_vfs && v->host; i++) {
		uint64_t has = v->partition.vfs[i].size;

		if (i != vf && vram_is_pinned(v, i))
			taken += has;
		else if (i != vf && pinned && has > largest)
			largest = has;
	}
	return room > taken + largest ? room - taken - largest : 0;
}

bool vram_find_home(const struct vram *v, uint32_t vf, uint64_t size, struct vgpu_extent *home,
		    uint64_t *largest)
{
	struct vgpu_memory_extent storage[2 * VGPU_GPU_MAX_VFS + 1];
	struct vgpu_memory_request request = {.owner = vf, .size = size};
	struct vgpu_memory homes;
	uint32_t i;

	vgpu_memory_init(&homes, storage, 2 * VGPU_GPU_MAX_VFS + 1, v->host, v->table.granule);
	for (i = 0; i < v->n_vfs; i++)
		if (i != vf && v->partition.homes[i].size)
			vgpu_memory_reserve(&homes, i,
					    v->partition.homes[i].offset - v->table.local,
					    v->partition.homes[i].size);
	*largest = vgpu_memory_largest_free(&homes);
	if (size == 0 || vgpu_memory_alloc(&homes, &request, &home->offset) < 0)
		return false;
	home->offset += v->table.local;
	home->size = size;
	return true;
}

/* Those that are out are at home; the others get theirs again, the largest first. */
void vram_find_homes(struct vram *v)
{
	struct vgpu_partition *p = &v->partition;
	uint32_t i, best, placed = 0;
	uint64_t largest;

	for (i = 0; i < v->n_vfs; i++) {
		p->homes[i] = (struct vgpu_extent){0, 0};
		if (vram_is_here(v, i))
			continue;
		p->homes[i] = p->vfs[i];
		placed |= 1u << i;
	}
	for (;; placed |= 1u << best) {
		best = v->n_vfs;
		for (i = 0; i < v->n_vfs; i++)
			if (!(placed >> i & 1) &&
			    (best == v->n_vfs || p->vfs[i].size > p->vfs[best].size))
				best = i;
		if (best == v->n_vfs)
			return;
		if (!(v->pinned >> best & 1) &&
		    !vram_find_home(v, best, p->vfs[best].size, &p->homes[best], &largest))
			p->homes[best] = (struct vgpu_extent){0, 0}; /* it stays */
	}
}

static void observe(struct vram *v, vgpu_nsec now)
{
	struct vgpu_residency_vf is;
	struct vgpu_vf_view view;
	uint32_t i;

	for (i = 0; i < v->n_vfs; i++) {
		view = vram_vf(v, i);
		is = (struct vgpu_residency_vf){
			.here = vram_is_here(v, i),
			.wants = view.state == VGPU_VF_EXCLUSIVE ||
				 (view.state == VGPU_VF_ACTIVE && view.has_work),
			.pinned = is_pinned(v, i, &view) && v->partition.vfs[i].size > 0,
			.fixed = v->partition.vfs[i].size == 0 || !can_leave(v, i, &view),
			.empty = view.context == VGPU_CTX_NONE,
			.run_ns = view.ledger.run_ns,
			.share = {view.share_numerator, view.share_denominator},
		};
		vgpu_residency_observe(&v->residency, i, &is, now);
		/* A change is over, or has given its VF another place. */
		if (view.away == is.here)
			vram_tell(v, VGPU_EV_AWAY, i, !is.here, now);
	}
}

static struct vgpu_memory_request place_for(const struct vram *v, uint32_t vf)
{
	return (struct vgpu_memory_request){
		.owner = vf,
		.size = v->partition.vfs[vf].size,
		.placement = v->placement,
		.base = v->partition.pf.size,
		.span = v->table.local - v->partition.pf.size,
	};
}

/* Bytes that would be nobody's if those of OUT had left. */
static uint64_t free_without(const struct vram *v, uint32_t out)
{
	struct vgpu_memory local = vgpu_memory_local(&v->table);
	uint64_t sum = vgpu_memory_in(&local, VGPU_EXTENT_FREE) +
		       vgpu_memory_in(&local, VGPU_EXTENT_SCRUBBING);
	uint32_t i;

	for (i = 0; i < v->n_vfs; i++)
		sum += out >> i & 1 ? v->partition.vfs[i].size : 0;
	return sum;
}

/* Whether there would be room for VF if what is being cleared were clear and those of OUT had left.
 */
static bool fits_without(const struct vram *v, uint32_t vf, uint32_t out)
{
	struct vgpu_memory_request request = place_for(v, vf);
	struct vgpu_memory_extent storage[VRAM_EXTENTS];
	struct vgpu_memory table = v->table;
	uint64_t offset;
	uint32_t i;

	memcpy(storage, v->extents, sizeof(storage));
	table.extents = storage;
	for (i = 0; i < v->n_vfs; i++)
		if (out >> i & 1)
			vgpu_memory_release(&table, v->partition.vfs[i].offset);
	vgpu_memory_all_scrubbed(&table);
	return vgpu_memory_alloc(&table, &request, &offset) == 0;
}

/* Who has to leave next for VF to come in; VGPU_NO_VF: nobody can, or needs to. */
static uint32_t next_leaver(const struct vram *v, uint32_t vf, vgpu_nsec now)
{
	uint32_t order[VGPU_GPU_MAX_VFS], n, i, out = 0;

	n = vgpu_residency_leavers(&v->residency, vf, now, order);
	for (i = 0; i < n && !fits_without(v, vf, out); i++)
		out |= 1u << order[i];
	/* One after the other, until moves make one hole of what is free. */
	if (!fits_without(v, vf, out))
		return n && free_without(v, out) >= v->partition.vfs[vf].size ? order[0]
									      : VGPU_NO_VF;
	/* Those in the wrong place need not go. */
	for (i = 0; i < n; i++)
		if (out >> order[i] & 1 && fits_without(v, vf, out & ~(1u << order[i])))
			out &= ~(1u << order[i]);
	for (i = 0; i < n; i++)
		if (out >> order[i] & 1)
			return order[i];
	return VGPU_NO_VF;
}

static bool begin(struct vram *v, uint32_t vf, uint64_t to, vgpu_nsec now)
{
	return vram_begin_move(v, v->partition.vfs[vf].offset, to, now);
}

static bool may_move(uint32_t vf, void *data)
{
	const struct vram *v = data;

	return vf != VRAM_PF && vram_can_move(vram_vf(v, vf).state);
}

static void look_at(struct vram *v, vgpu_nsec t)
{
	v->look_at_all = t < v->look_at_all ? t : v->look_at_all;
}

/* Begins the next swap, if there is one to be begun. */
static void swap(struct vram *v, vgpu_nsec now)
{
	struct vgpu_memory_extent scratch[VRAM_EXTENTS];
	struct vgpu_memory_request request;
	struct vgpu_memory table = v->table;
	uint32_t in = vgpu_residency_next(&v->residency), out;
	uint64_t from, to;

	if (in == VGPU_NO_VF)
		return;
	look_at(v, now < v->swap_at ? v->swap_at : vgpu_residency_deadline(&v->residency, now));
	if (now < v->swap_at)
		return;
	request = place_for(v, in);
	memcpy(scratch, v->extents, sizeof(scratch));
	table.extents = scratch;
	if (vgpu_memory_alloc(&table, &request, &to) == 0) {
		begin(v, in, to, now);
		return;
	}
	if (fits_without(v, in, 0)) {
		v->swap_waits = true;
		return;
	}
	/* Those that stay may lie so that only moving them makes room. */
	if (free_without(v, 0) >= request.size &&
	    vgpu_memory_plan_move(&v->table, scratch, &request, may_move, v, &from, &to)) {
		v->swap_waits = !vram_begin_move(v, from, to, now);
		return;
	}
	out = next_leaver(v, in, now);
	if (out != VGPU_NO_VF)
		v->swap_waits = !begin(v, out, v->partition.homes[out].offset, now);
}

void vram_swap(struct vram *v, vgpu_nsec now)
{
	v->swap_waits = false;
	if (!v->host)
		return;
	if (now < v->observe_at) {
		look_at(v, v->observe_at);
		return;
	}
	v->observe_at = now + OBSERVE_EVERY;
	observe(v, now);
	swap(v, now);
}
