/* SPDX-License-Identifier: MIT */
/*
 * Swapping, where the VFs together have more memory than the GPU: begins the swaps that
 * vgpu/residency.h decides on. A swap is a move between a VF's place on the GPU and its home in
 * host memory, with the steps, checks and exits of any move. A VF that is swapped out stays off the
 * engine; all others run on.
 */
#include <string.h>

#include "private.h"

/* Checking all VFs takes some microseconds: too long for every slice. */
#define OBSERVE_EVERY VGPU_MSEC

static void observe(struct vgpu_memory_state *m)
{
	struct vgpu_residency_vf is;
	uint32_t i;
	bool pinned;

	for (i = 0; i < m->n_vfs; i++) {
		const struct vgpu_memory_vf *vf = &m->vfs[i];

		pinned = homes_is_pinned(m, i);
		is = (struct vgpu_residency_vf){
			.here = vgpu_memory_is_here(m, i),
			.wants = vf->state == VGPU_VF_EXCLUSIVE ||
				 (vf->state == VGPU_VF_ACTIVE && vf->has_work),
			.pinned = pinned && m->partition.vfs[i].size > 0,
			.fixed = m->partition.vfs[i].size == 0 || !homes_can_leave(m, i),
			.empty = vf->empty,
			.run_ns = vf->run_ns,
			.share = {vf->share[0], vf->share[1]},
		};
		vgpu_residency_observe(&m->residency, i, &is, m->now);
		/* A change has ended, or has placed its VF elsewhere. */
		if (vf->away == is.here && !(m->telling >> i & 1))
			memory_act_on_vf(m, is.here ? VGPU_MA_RELEASE : VGPU_MA_HOLD, i,
					 VGPU_KEEP_AWAY);
	}
}

static struct vgpu_memory_request place_for(const struct vgpu_memory_state *m, uint32_t vf)
{
	return (struct vgpu_memory_request){
		.owner = vf,
		.size = m->partition.vfs[vf].size,
		.placement = m->placement,
		.base = m->partition.pf.size,
		.span = m->table.local - m->partition.pf.size,
	};
}

/* Bytes on the GPU that would have no owner if the VFs in OUT had left. */
static uint64_t free_without(const struct vgpu_memory_state *m, vgpu_vf_set out)
{
	struct vgpu_memory local = vgpu_memory_local(&m->table);
	uint64_t sum = vgpu_memory_in(&local, VGPU_EXTENT_FREE) +
		       vgpu_memory_in(&local, VGPU_EXTENT_SCRUBBING);
	uint32_t i;

	for (i = 0; i < m->n_vfs; i++)
		sum += out >> i & 1 ? m->partition.vfs[i].size : 0;
	return sum;
}

/* Returns whether VF would fit if everything being scrubbed were free and the VFs in OUT had left.
 */
static bool fits_without(const struct vgpu_memory_state *m, uint32_t vf, vgpu_vf_set out)
{
	struct vgpu_memory_request request = place_for(m, vf);
	struct vgpu_memory_extent storage[VGPU_MEMORY_EXTENTS];
	struct vgpu_memory table = m->table;
	uint64_t offset;
	uint32_t i;

	memcpy(storage, m->extents, sizeof(storage));
	table.extents = storage;
	for (i = 0; i < m->n_vfs; i++)
		if (out >> i & 1)
			vgpu_memory_release(&table, m->partition.vfs[i].offset);
	vgpu_memory_all_scrubbed(&table);
	return vgpu_memory_alloc(&table, &request, &offset) == 0;
}

/* The VF to swap out next so that VF can come in; VGPU_NO_VF: none can leave, or none needs to. */
static uint32_t next_leaver(const struct vgpu_memory_state *m, uint32_t vf)
{
	uint32_t order[VGPU_GPU_MAX_VFS], n, i;
	vgpu_vf_set out = 0;

	n = vgpu_residency_candidates(&m->residency, vf, m->now, order);
	for (i = 0; i < n && !fits_without(m, vf, out); i++)
		out |= VGPU_VF_BIT(order[i]);
	/* Evict one at a time, until moves can join the free memory into one hole. */
	if (!fits_without(m, vf, out))
		return n && free_without(m, out) >= m->partition.vfs[vf].size ? order[0]
									      : VGPU_NO_VF;
	/* Keep those whose eviction does not help. */
	for (i = 0; i < n; i++)
		if (out >> order[i] & 1 && fits_without(m, vf, out & ~VGPU_VF_BIT(order[i])))
			out &= ~VGPU_VF_BIT(order[i]);
	for (i = 0; i < n; i++)
		if (out >> order[i] & 1)
			return order[i];
	return VGPU_NO_VF;
}

static bool may_move(uint32_t vf, void *data)
{
	const struct vgpu_memory_state *m = data;

	return vf != VGPU_MEMORY_PF && vgpu_memory_can_move(m->vfs[vf].state);
}

/* Begins the next swap, if one is due. */
static void begin_next(struct vgpu_memory_state *m)
{
	struct vgpu_memory_extent scratch[VGPU_MEMORY_EXTENTS];
	struct vgpu_memory_request request;
	struct vgpu_memory table = m->table;
	uint32_t in = vgpu_residency_next(&m->residency), out;
	uint64_t from, to;

	if (in == VGPU_NO_VF)
		return;
	memory_wake_by(m, m->now < m->swap_at ? m->swap_at
					      : vgpu_residency_deadline(&m->residency, m->now));
	if (m->now < m->swap_at)
		return;
	request = place_for(m, in);
	memcpy(scratch, m->extents, sizeof(scratch));
	table.extents = scratch;
	if (vgpu_memory_alloc(&table, &request, &to) == 0) {
		move_begin(m, m->partition.vfs[in].offset, to);
		return;
	}
	if (fits_without(m, in, 0)) {
		m->swap_waits = true;
		return;
	}
	/* There may be enough free memory, but in several holes: move partitions to join them. */
	if (free_without(m, 0) >= request.size &&
	    vgpu_memory_plan_move(&m->table, scratch, &request, may_move, m, &from, &to)) {
		m->swap_waits = !move_begin(m, from, to);
		return;
	}
	out = next_leaver(m, in);
	if (out != VGPU_NO_VF)
		m->swap_waits = !move_begin(m, m->partition.vfs[out].offset,
					    m->partition.homes[out].offset);
}

void swap_advance(struct vgpu_memory_state *m)
{
	if (!m->host)
		return;
	if (m->now < m->observe_at) {
		memory_wake_by(m, m->observe_at);
		return;
	}
	m->swap_waits = false;
	m->observe_at = m->now + OBSERVE_EVERY;
	observe(m);
	begin_next(m);
}
