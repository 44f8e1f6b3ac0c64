/* SPDX-License-Identifier: MIT */
/* Which VFs are on the GPU, which have a home in host memory, and which need none. */
#include "private.h"

bool vgpu_memory_is_here(const struct vgpu_memory_state *m, uint32_t vf)
{
	return m->partition.vfs[vf].offset < m->table.local;
}

bool homes_is_pinned(const struct vgpu_memory_state *m, uint32_t vf)
{
	if (!m->host || (m->pinned | m->swappable) >> vf & 1)
		return !m->host || m->pinned >> vf & 1;
	return m->vfs[vf].guaranteed;
}

bool homes_can_leave(const struct vgpu_memory_state *m, uint32_t vf)
{
	enum vgpu_vf_state state = m->vfs[vf].state;

	return !homes_is_pinned(m, vf) && m->partition.homes[vf].size > 0 &&
	       (state == VGPU_VF_ACTIVE || state == VGPU_VF_AVAIL || state == VGPU_VF_BACKOFF ||
		state == VGPU_VF_QUARANTINED);
}

uint64_t homes_most(const struct vgpu_memory_state *m, uint32_t vf)
{
	uint64_t taken = 0, largest = 0, room = m->table.local - m->partition.pf.size;
	bool pinned = homes_is_pinned(m, vf);
	uint32_t i;

	for (i = 0; i < m->n_vfs && m->host; i++) {
		uint64_t has = m->partition.vfs[i].size;

		if (i != vf && homes_is_pinned(m, i))
			taken += has;
		else if (i != vf && pinned && has > largest)
			largest = has;
	}
	return room > taken + largest ? room - taken - largest : 0;
}

bool homes_find(const struct vgpu_memory_state *m, uint32_t vf, uint64_t size,
		struct vgpu_extent *home, uint64_t *largest)
{
	struct vgpu_memory_extent storage[2 * VGPU_GPU_MAX_VFS + 1];
	struct vgpu_memory_request request = {.owner = vf, .size = size};
	struct vgpu_memory homes;
	uint32_t i;

	vgpu_memory_init(&homes, storage, 2 * VGPU_GPU_MAX_VFS + 1, m->host, m->table.granule);
	for (i = 0; i < m->n_vfs; i++)
		if (i != vf && m->partition.homes[i].size)
			vgpu_memory_reserve(&homes, i,
					    m->partition.homes[i].offset - m->table.local,
					    m->partition.homes[i].size);
	*largest = vgpu_memory_largest_free(&homes);
	if (size == 0 || vgpu_memory_alloc(&homes, &request, &home->offset) < 0)
		return false;
	home->offset += m->table.local;
	home->size = size;
	return true;
}

/* The VF with the largest partition of those not in PLACED, or n_vfs. */
static uint32_t largest_of(const struct vgpu_memory_state *m, vgpu_vf_set placed)
{
	uint32_t i, best = m->n_vfs;

	for (i = 0; i < m->n_vfs; i++)
		if (!(placed >> i & 1) &&
		    (best == m->n_vfs || m->partition.vfs[i].size > m->partition.vfs[best].size))
			best = i;
	return best;
}

void homes_find_all(struct vgpu_memory_state *m)
{
	struct vgpu_partition *p = &m->partition;
	vgpu_vf_set placed = 0;
	uint32_t i;
	uint64_t largest;

	for (i = 0; i < m->n_vfs; i++) {
		p->homes[i] = (struct vgpu_extent){0, 0};
		if (vgpu_memory_is_here(m, i))
			continue;
		p->homes[i] = p->vfs[i];
		placed |= VGPU_VF_BIT(i);
	}
	while ((i = largest_of(m, placed)) < m->n_vfs) {
		placed |= VGPU_VF_BIT(i);
		if (!(m->pinned >> i & 1) &&
		    !homes_find(m, i, p->vfs[i].size, &p->homes[i], &largest))
			p->homes[i] =
				(struct vgpu_extent){0,
						     0}; /* no room: the VF is never swapped out */
	}
}

void homes_give(struct vgpu_memory_state *m, uint32_t vf, struct vgpu_extent where)
{
	struct vgpu_extent *home = &m->partition.homes[vf];
	uint64_t largest;

	*home = where;
	if (where.size == 0 || where.offset >= m->table.local)
		return;
	/* The VF is pinned. If only a guarantee pins it, that may end, and it needs a home. */
	if (m->pinned >> vf & 1 || !homes_find(m, vf, where.size, home, &largest))
		*home = (struct vgpu_extent){0, 0};
}

bool vgpu_memory_overflows(const struct vgpu_memory_state *m, uint32_t vf)
{
	return homes_is_pinned(m, vf) && m->partition.vfs[vf].size > homes_most(m, vf);
}
