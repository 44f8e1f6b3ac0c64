/* SPDX-License-Identifier: MIT */
/* Plans which partitions to move, and where, to make room. Two strategies are simulated to their
 * end on a copy of the table. */
#include <string.h>

#include "table.h"

/* The largest run of bytes without an owner, if extent GONE had no owner and the first SIZE bytes
 * of extent TAKEN had one. GONE or TAKEN = m->n: no such extent. */
static uint64_t largest_run(const struct vgpu_memory *m, uint32_t gone, uint32_t taken,
			    uint64_t size)
{
	uint64_t run = 0, largest = 0;
	uint32_t i;

	for (i = 0; i < m->n; i++) {
		const struct vgpu_memory_extent *e = &m->extents[i];

		if (!nobodys(e) && i != gone)
			run = 0;
		else if (i == taken)
			run = e->size - size;
		else
			run += e->size;
		largest = run > largest ? run : largest;
	}
	return largest;
}

/* The owners whose extents may be moved, and the places for them. */
struct movers {
	const struct vgpu_memory_request *rule;
	bool (*movable)(uint32_t owner, void *data);
	void *data;
};

struct step {
	uint64_t from, to;
};

/* Strategy 1: the move of the fewest bytes that enlarges the largest hole. Not for profiles: they
 * need aligned holes, not large ones. */
static bool greedy(const struct vgpu_memory *m, const struct movers *who, struct step *out)
{
	uint64_t now = largest_run(m, m->n, m->n, 0), then, least = UINT64_MAX;
	uint32_t i, h;

	if (who->rule->placement == VGPU_PLACE_PROFILE)
		return false;
	for (i = 0; i < m->n; i++) {
		const struct vgpu_memory_extent *e = &m->extents[i];

		if (e->state != VGPU_EXTENT_OWNED || e->size >= least ||
		    !who->movable(e->owner, who->data))
			continue;
		for (h = 0; h < m->n; h++) {
			if (m->extents[h].state != VGPU_EXTENT_FREE || m->extents[h].size < e->size)
				continue;
			then = largest_run(m, i, h, e->size);
			if (then <= now || e->size >= least)
				continue;
			least = e->size;
			*out = (struct step){e->offset, m->extents[h].offset};
		}
	}
	return least != UINT64_MAX;
}

/* Strategy 2: the first extent that can move to a lower address, into the lowest hole that it fits
 * in. */
static bool slide(const struct vgpu_memory *m, const struct movers *who, struct step *out)
{
	uint32_t i, h;

	for (i = 0; i < m->n; i++) {
		const struct vgpu_memory_extent *e = &m->extents[i];

		if (e->state != VGPU_EXTENT_OWNED || !who->movable(e->owner, who->data))
			continue;
		for (h = 0; h < i; h++) {
			uint64_t to = table_place_in(&m->extents[h], who->rule, e->size);

			if (m->extents[h].state == VGPU_EXTENT_FREE && to != UINT64_MAX) {
				*out = (struct step){e->offset, to};
				return true;
			}
		}
	}
	return false;
}

/* The extent of an owner, or NULL. */
static const struct vgpu_memory_extent *extent_of(const struct vgpu_memory *m, uint32_t owner)
{
	uint32_t i;

	for (i = 0; i < m->n; i++)
		if (m->extents[i].state == VGPU_EXTENT_OWNED && m->extents[i].owner == owner)
			return &m->extents[i];
	return NULL;
}

typedef bool way(const struct vgpu_memory *m, const struct movers *who, struct step *out);

/*
 * Simulates one strategy on a copy of the table, until WANTED, SIZE bytes, fits; or to its end if
 * WANTED is NULL. Writes the first move and the largest hole at the end. Returns false if the
 * strategy makes no move, or does not lead to a place.
 */
static bool follow(const struct vgpu_memory *m, struct vgpu_memory_extent *scratch,
		   const struct movers *who, way *next, const struct vgpu_memory_request *wanted,
		   uint64_t size, struct step *first, uint64_t *largest)
{
	struct vgpu_memory t = vgpu_memory_local(m);
	struct step step;
	bool any = false, there;

	t.extents = scratch;
	memcpy(scratch, m->extents, t.n * sizeof(*scratch));
	for (;; any = true) {
		vgpu_memory_all_scrubbed(&t);
		there = wanted && table_place_without(&t, extent_of(&t, wanted->owner), wanted,
						      size) != UINT64_MAX;
		if (there || !next(&t, who, &step) ||
		    vgpu_memory_move_begin(&t, step.from, step.to) < 0)
			break;
		vgpu_memory_move_end(&t, step.from, step.to);
		*first = any ? *first : step;
	}
	*largest = vgpu_memory_largest_free(&t);
	return any && (there || !wanted);
}

bool vgpu_memory_plan_move(const struct vgpu_memory *m, struct vgpu_memory_extent *scratch,
			   const struct vgpu_memory_request *wanted,
			   bool (*movable)(uint32_t owner, void *data), void *data, uint64_t *from,
			   uint64_t *to)
{
	const struct movers who = {wanted, movable, data};
	struct step first = {0, 0};
	uint64_t size, largest;

	/* Each move of strategy 1 enlarges the largest hole, each of strategy 2 lowers an extent.
	 * So a strategy that makes room still does so after its first move, and the caller makes
	 * progress. */
	if (vgpu_memory_size(m, wanted, &size) < 0 ||
	    (!follow(m, scratch, &who, greedy, wanted, size, &first, &largest) &&
	     !follow(m, scratch, &who, slide, wanted, size, &first, &largest)))
		return false;
	*from = first.from;
	*to = first.to;
	return true;
}

uint64_t vgpu_memory_plan_compaction(const struct vgpu_memory *m,
				     struct vgpu_memory_extent *scratch,
				     const struct vgpu_memory_request *rule,
				     bool (*movable)(uint32_t owner, void *data), void *data,
				     uint64_t *from, uint64_t *to)
{
	const struct movers who = {rule, movable, data};
	struct step first[2] = {{0, 0}, {0, 0}};
	uint64_t largest[2];
	bool slides;

	/* A strategy's result does not change while the caller follows it, and the caller changes
	 * strategies only for a larger hole. So the moves end. */
	follow(m, scratch, &who, greedy, NULL, 0, &first[0], &largest[0]);
	follow(m, scratch, &who, slide, NULL, 0, &first[1], &largest[1]);
	slides = largest[1] > largest[0];
	*from = first[slides].from;
	*to = first[slides].to;
	return largest[slides];
}
