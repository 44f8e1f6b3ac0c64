/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "table.h"

const char *const vgpu_extent_state_names[VGPU_EXTENT_STATES] = {"free", "scrubbing", "owned",
								 "moving"};

static bool is_aligned(const struct vgpu_memory *m, uint64_t value)
{
	return value % m->granule == 0;
}

static uint64_t end_of(const struct vgpu_memory_extent *e)
{
	return e->offset + e->size;
}

void vgpu_memory_init(struct vgpu_memory *m, struct vgpu_memory_extent *extents, uint32_t capacity,
		      uint64_t total, uint64_t granule)
{
	*m = (struct vgpu_memory){
		.extents = extents,
		.capacity = capacity,
		.n = 1,
		.total = total / granule * granule,
		.local = total / granule * granule,
		.granule = granule,
	};
	extents[0] = (struct vgpu_memory_extent){.size = m->total};
}

int vgpu_memory_extend(struct vgpu_memory *m, uint64_t size)
{
	size = size / m->granule * m->granule;
	if (size == 0)
		return 0;
	if (m->n == m->capacity)
		return -ENOMEM;
	m->extents[m->n++] = (struct vgpu_memory_extent){.offset = m->total, .size = size};
	m->total += size;
	return 0;
}

/* The last extent that begins at OFFSET or before it. */
static uint32_t find(const struct vgpu_memory *m, uint64_t offset)
{
	uint32_t low = 0, high = m->n, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (m->extents[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static struct vgpu_memory_extent *at(const struct vgpu_memory *m, uint64_t offset,
				     enum vgpu_extent_state state)
{
	struct vgpu_memory_extent *e = &m->extents[find(m, offset)];

	return e->offset == offset && e->state == state ? e : NULL;
}

const struct vgpu_memory_extent *vgpu_memory_at(const struct vgpu_memory *m, uint64_t offset)
{
	const struct vgpu_memory_extent *e = &m->extents[find(m, offset)];

	return e->offset == offset ? e : NULL;
}

struct vgpu_memory vgpu_memory_local(const struct vgpu_memory *m)
{
	struct vgpu_memory local = *m;
	uint32_t last = find(m, m->local);

	if (m->total > m->local)
		local.n = last;
	local.total = m->local;
	return local;
}

/* Joins extent I with the next, if neither has an owner and both are in the same state. */
static void join(struct vgpu_memory *m, uint32_t i)
{
	struct vgpu_memory_extent *e = &m->extents[i];

	if (i + 1 >= m->n || !nobodys(e) || e[1].state != e->state || e[1].offset == m->local)
		return;
	e->size += e[1].size;
	m->n--;
	memmove(e + 1, e + 2, (m->n - i - 1) * sizeof(*e));
}

/* How many extents cutting [OFFSET, OFFSET + SIZE) out of extent I adds. */
static uint32_t pieces(const struct vgpu_memory *m, uint32_t i, uint64_t offset, uint64_t size)
{
	const struct vgpu_memory_extent *e = &m->extents[i];

	return (uint32_t)(offset > e->offset) + (uint32_t)(offset + size < end_of(e));
}

/* Cuts [OFFSET, OFFSET + SIZE), which is in extent I, out of it, and returns the new extent. The
 * table must have room. */
static struct vgpu_memory_extent *cut(struct vgpu_memory *m, uint32_t i, uint64_t offset,
				      uint64_t size)
{
	struct vgpu_memory_extent *e = &m->extents[i], old = *e;
	uint32_t more = pieces(m, i, offset, size);

	memmove(e + 1 + more, e + 1, (m->n - i - 1) * sizeof(*e));
	m->n += more;
	if (offset > old.offset) {
		e->size = offset - old.offset;
		*++e = old;
	}
	if (offset + size < end_of(&old)) {
		e[1] = old;
		e[1].offset = offset + size;
		e[1].size = end_of(&old) - e[1].offset;
	}
	e->offset = offset;
	e->size = size;
	return e;
}

/* Takes extent I from its owner, sets STATE, and joins it with its neighbours. */
static void give_up(struct vgpu_memory *m, uint32_t i, enum vgpu_extent_state state)
{
	m->extents[i].state = state;
	m->extents[i].owner = 0;
	m->extents[i].generation = 0;
	join(m, i);
	if (i > 0)
		join(m, i - 1);
}

int vgpu_memory_reserve(struct vgpu_memory *m, uint32_t owner, uint64_t offset, uint64_t size)
{
	uint32_t i = find(m, offset);
	struct vgpu_memory_extent *e = &m->extents[i];

	if (size == 0 || !is_aligned(m, offset) || !is_aligned(m, size))
		return -EINVAL;
	if (e->state != VGPU_EXTENT_FREE || offset >= end_of(e) || size > end_of(e) - offset)
		return -EBUSY;
	if (m->n + pieces(m, i, offset, size) > m->capacity)
		return -ENOMEM;
	e = cut(m, i, offset, size);
	e->state = VGPU_EXTENT_OWNED;
	e->owner = owner;
	e->generation = ++m->generation;
	return 0;
}

uint64_t vgpu_memory_profile(uint64_t span, uint64_t granule)
{
	uint64_t part = granule;

	while (part <= span / 64)
		part *= 2;
	return span / part * part;
}

uint64_t vgpu_memory_profile_of(uint64_t span, uint64_t granule, uint64_t size)
{
	uint64_t profile = vgpu_memory_profile(span, granule);

	if (size > profile)
		return 0;
	while (profile / 2 >= size && profile / 2 % granule == 0)
		profile /= 2;
	return profile;
}

uint64_t table_place_in(const struct vgpu_memory_extent *e, const struct vgpu_memory_request *r,
			uint64_t size)
{
	uint64_t offset = e->offset, over;

	if (r->placement == VGPU_PLACE_PROFILE) {
		if (offset < r->base)
			offset = r->base;
		over = (offset - r->base) % size;
		offset += over ? size - over : 0;
		if (offset + size > r->base + r->span)
			return UINT64_MAX;
	}
	return offset < end_of(e) && size <= end_of(e) - offset ? offset : UINT64_MAX;
}

int vgpu_memory_size(const struct vgpu_memory *m, const struct vgpu_memory_request *request,
		     uint64_t *size)
{
	if (request->size == 0)
		return -EINVAL;
	if (request->size > m->local)
		return -ENOSPC;
	*size = request->placement == VGPU_PLACE_PROFILE
			? vgpu_memory_profile_of(request->span, m->granule, request->size)
			: (request->size + m->granule - 1) / m->granule * m->granule;
	return *size ? 0 : -ENOSPC;
}

/* Returns where the request fits: at KEEP if possible, else in the smallest hole; UINT64_MAX:
 * nowhere. */
static uint64_t best_place(const struct vgpu_memory *m, const struct vgpu_memory_request *request,
			   uint64_t size, uint64_t keep)
{
	uint64_t place, best = UINT64_MAX, best_size = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < m->n && m->extents[i].offset < m->local; i++) {
		struct vgpu_memory_extent e = m->extents[i];

		if (e.state != VGPU_EXTENT_FREE)
			continue;
		if (keep >= e.offset && keep < end_of(&e)) {
			e.size = end_of(&e) - keep;
			e.offset = keep;
			if (table_place_in(&e, request, size) == keep)
				return keep;
			e = m->extents[i];
		}
		place = e.size < best_size ? table_place_in(&e, request, size) : UINT64_MAX;
		if (place != UINT64_MAX) {
			best = place;
			best_size = e.size;
		}
	}
	return best;
}

int vgpu_memory_alloc(struct vgpu_memory *m, const struct vgpu_memory_request *request,
		      uint64_t *offset)
{
	uint64_t size, place;
	int r = vgpu_memory_size(m, request, &size);

	if (r < 0)
		return r;
	place = best_place(m, request, size, UINT64_MAX);
	if (place == UINT64_MAX)
		return -ENOSPC;
	r = vgpu_memory_reserve(m, request->owner, place, size);
	if (r == 0)
		*offset = place;
	return r;
}

int vgpu_memory_release(struct vgpu_memory *m, uint64_t offset)
{
	struct vgpu_memory_extent *e = at(m, offset, VGPU_EXTENT_OWNED);

	if (!e)
		return -ENOENT;
	give_up(m, (uint32_t)(e - m->extents), VGPU_EXTENT_SCRUBBING);
	return 0;
}

int vgpu_memory_scrubbed(struct vgpu_memory *m, uint64_t offset, uint64_t size)
{
	uint32_t i = find(m, offset);
	struct vgpu_memory_extent *e = &m->extents[i];

	if (e->state != VGPU_EXTENT_SCRUBBING || offset >= end_of(e))
		return -ENOENT;
	if (size == 0 || size > end_of(e) - offset || !is_aligned(m, size) ||
	    !is_aligned(m, offset))
		return -EINVAL;
	if (m->n + pieces(m, i, offset, size) > m->capacity)
		return -ENOMEM;
	e = cut(m, i, offset, size);
	give_up(m, (uint32_t)(e - m->extents), VGPU_EXTENT_FREE);
	return 0;
}

uint64_t vgpu_memory_all_scrubbed(struct vgpu_memory *m)
{
	uint64_t bytes = vgpu_memory_in(m, VGPU_EXTENT_SCRUBBING);
	uint32_t i = 0;

	while (i < m->n) {
		if (m->extents[i].state != VGPU_EXTENT_SCRUBBING) {
			i++;
			continue;
		}
		give_up(m, i, VGPU_EXTENT_FREE);
		i = 0; /* the extents may have been joined */
	}
	return bytes;
}

/* Marks a free range as to be scrubbed. */
static void mark_dirty(struct vgpu_memory *m, uint64_t offset, uint64_t end)
{
	struct vgpu_memory_extent *e;

	if (offset >= end)
		return;
	e = cut(m, find(m, offset), offset, end - offset);
	give_up(m, (uint32_t)(e - m->extents), VGPU_EXTENT_SCRUBBING);
}

uint64_t table_place_without(struct vgpu_memory *m, const struct vgpu_memory_extent *old,
			     const struct vgpu_memory_request *request, uint64_t size)
{
	struct vgpu_memory_extent kept;
	uint64_t place;

	if (!old)
		return best_place(m, request, size, UINT64_MAX);
	kept = *old;
	give_up(m, (uint32_t)(old - m->extents), VGPU_EXTENT_FREE);
	place = best_place(m, request, size, kept.offset);
	*cut(m, find(m, kept.offset), kept.offset, kept.size) = kept;
	return place;
}

int vgpu_memory_replace_at(struct vgpu_memory *m, uint64_t offset, uint64_t to, uint64_t size)
{
	struct vgpu_memory_extent *e = at(m, offset, VGPU_EXTENT_OWNED), old;
	uint64_t end;
	int r;

	if (!e)
		return -ENOENT;
	if (m->n + 3 > m->capacity)
		return -ENOMEM;
	old = *e;
	end = end_of(&old);
	give_up(m, (uint32_t)(e - m->extents), VGPU_EXTENT_FREE);
	r = vgpu_memory_reserve(m, old.owner, to, size);
	if (r < 0) {
		*cut(m, find(m, offset), offset, old.size) = old;
		return r;
	}
	mark_dirty(m, offset, to < end ? to : end);
	mark_dirty(m, to + size > offset ? to + size : offset, end);
	return 0;
}

int vgpu_memory_replace(struct vgpu_memory *m, uint64_t offset,
			const struct vgpu_memory_request *request, uint64_t *to)
{
	const struct vgpu_memory_extent *e = at(m, offset, VGPU_EXTENT_OWNED);
	uint64_t size, place;
	int r = vgpu_memory_size(m, request, &size);

	if (!e || e->owner != request->owner)
		return -ENOENT;
	if (r < 0)
		return r;
	if (m->n + 3 > m->capacity)
		return -ENOMEM;
	place = table_place_without(m, e, request, size);
	if (place == UINT64_MAX)
		return -ENOSPC;
	r = vgpu_memory_replace_at(m, offset, place, size);
	if (r == 0)
		*to = place;
	return r;
}

int vgpu_memory_move_begin(struct vgpu_memory *m, uint64_t from, uint64_t to)
{
	const struct vgpu_memory_extent *e = at(m, from, VGPU_EXTENT_OWNED);
	int r;

	if (!e)
		return -ENOENT;
	r = vgpu_memory_reserve(m, e->owner, to, e->size);
	if (r == 0)
		at(m, to, VGPU_EXTENT_OWNED)->state = VGPU_EXTENT_MOVING;
	return r;
}

int vgpu_memory_move_end(struct vgpu_memory *m, uint64_t from, uint64_t to)
{
	struct vgpu_memory_extent *copy = at(m, to, VGPU_EXTENT_MOVING);
	const struct vgpu_memory_extent *e = at(m, from, VGPU_EXTENT_OWNED);

	if (!copy || !e || e->owner != copy->owner || e->size != copy->size)
		return -ENOENT;
	copy->state = VGPU_EXTENT_OWNED;
	return vgpu_memory_release(m, from);
}

int vgpu_memory_move_abort(struct vgpu_memory *m, uint64_t to)
{
	const struct vgpu_memory_extent *e = at(m, to, VGPU_EXTENT_MOVING);

	if (!e)
		return -ENOENT;
	give_up(m, (uint32_t)(e - m->extents), VGPU_EXTENT_SCRUBBING);
	return 0;
}

uint64_t vgpu_memory_in(const struct vgpu_memory *m, enum vgpu_extent_state state)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < m->n; i++)
		sum += m->extents[i].state == state ? m->extents[i].size : 0;
	return sum;
}

uint64_t vgpu_memory_largest_free(const struct vgpu_memory *m)
{
	uint64_t largest = 0;
	uint32_t i;

	for (i = 0; i < m->n && m->extents[i].offset < m->local; i++)
		if (m->extents[i].state == VGPU_EXTENT_FREE && m->extents[i].size > largest)
			largest = m->extents[i].size;
	return largest;
}

const char *vgpu_memory_check(const struct vgpu_memory *m)
{
	uint64_t end = 0;
	uint32_t i;

	if (m->n == 0 || m->n > m->capacity)
		return "there are no extents, or more than the capacity";
	for (i = 0; i < m->n; i++) {
		const struct vgpu_memory_extent *e = &m->extents[i];

		if (e->offset != end)
			return "extents overlap, or leave a gap";
		if (e->size == 0 && m->total > 0)
			return "an extent is empty";
		if (!is_aligned(m, e->offset) || !is_aligned(m, e->size))
			return "an extent is not aligned";
		if (e->offset < m->local && end_of(e) > m->local)
			return "an extent lies in the GPU's memory and in the host's";
		if (i > 0 && nobodys(e) && e->state == e[-1].state && e->offset != m->local)
			return "two adjacent extents without an owner are not joined";
		end += e->size;
	}
	return end == m->total ? NULL : "extents do not cover the whole";
}
