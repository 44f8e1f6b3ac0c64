/* SPDX-License-Identifier: MIT */
/*
 * A heap of VFs, ordered by a key that may wrap around: keys are compared by their distance, as
 * sequence numbers are (RFC 1982); ties are broken by VF number, so that the order is the same
 * everywhere. A node has four children, which share a cache line. Each VF is in the heap at most
 * once.
 */
#pragma once

#include "vgpu/types.h"

#define HEAP_NOWHERE UINT32_MAX

struct heap_entry {
	uint64_t key;
	uint32_t vf;
};

struct heap {
	struct heap_entry *entries;
	uint32_t *places; /* by VF: index in entries, or HEAP_NOWHERE */
	uint32_t n;
};

/* Returns the bytes of memory for a heap of max_vfs VFs. */
static inline size_t heap_memory(uint32_t max_vfs)
{
	return max_vfs * (sizeof(struct heap_entry) + sizeof(uint64_t));
}

/* Makes an empty heap in MEMORY, which the caller owns; returns the first byte after it. */
static inline void *heap_init(struct heap *h, void *memory, uint32_t max_vfs)
{
	uint32_t i;

	h->entries = memory;
	h->places = (uint32_t *)(h->entries + max_vfs);
	h->n = 0;
	for (i = 0; i < max_vfs; i++)
		h->places[i] = HEAP_NOWHERE;
	return (uint64_t *)(h->entries + max_vfs) + max_vfs;
}

/* Returns whether A is before B. If keys are equal, the VF with the smaller number is first: the
 * comparison of the numbers subtracts one from the distance. */
static inline bool heap_before(const struct heap_entry *a, const struct heap_entry *b)
{
	return (int64_t)(a->key - b->key - (a->vf < b->vf)) < 0;
}

/* Returns which of the four entries from AT on is first. Without branches, because a CPU would
 * mispredict about half of them. */
static inline uint32_t heap_least(const struct heap_entry *entries, uint32_t at)
{
	uint32_t a = at + heap_before(&entries[at + 1], &entries[at]);
	uint32_t b = at + 2 + heap_before(&entries[at + 3], &entries[at + 2]);

	return heap_before(&entries[b], &entries[a]) ? b : a;
}

static inline void heap_place(struct heap *h, uint32_t at, struct heap_entry e)
{
	h->entries[at] = e;
	h->places[e.vf] = at;
}

static inline void heap_sift_up(struct heap *h, uint32_t at, struct heap_entry e)
{
	uint32_t parent;

	while (at > 0) {
		parent = (at - 1) / 4;
		if (!heap_before(&e, &h->entries[parent]))
			break;
		heap_place(h, at, h->entries[parent]);
		at = parent;
	}
	heap_place(h, at, e);
}

static inline void heap_sift_down(struct heap *h, uint32_t at, struct heap_entry e)
{
	uint32_t child, i;

	while ((child = 4 * at + 1) < h->n) {
		if (child + 4 <= h->n)
			child = heap_least(h->entries, child);
		else
			for (i = child + 1; i < h->n; i++)
				if (heap_before(&h->entries[i], &h->entries[child]))
					child = i;
		if (!heap_before(&h->entries[child], &e))
			break;
		heap_place(h, at, h->entries[child]);
		at = child;
	}
	heap_place(h, at, e);
}

static inline bool heap_has(const struct heap *h, uint32_t vf)
{
	return h->places[vf] != HEAP_NOWHERE;
}

static inline void heap_insert(struct heap *h, uint32_t vf, uint64_t key)
{
	heap_sift_up(h, h->n++, (struct heap_entry){key, vf});
}

/* Removes VF; does nothing if VF is not in the heap. */
static inline void heap_remove(struct heap *h, uint32_t vf)
{
	uint32_t at = h->places[vf];
	struct heap_entry last;

	if (at == HEAP_NOWHERE)
		return;
	h->places[vf] = HEAP_NOWHERE;
	last = h->entries[--h->n];
	if (last.vf == vf)
		return;
	if (at > 0 && heap_before(&last, &h->entries[(at - 1) / 4]))
		heap_sift_up(h, at, last);
	else
		heap_sift_down(h, at, last);
}

static inline uint32_t heap_first(const struct heap *h)
{
	return h->n ? h->entries[0].vf : VGPU_NO_VF;
}
