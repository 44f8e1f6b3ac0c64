/* SPDX-License-Identifier: MIT */
/*
 * The last records that one thread has written, for any thread to read, without locks. The writer
 * never waits: it overwrites the oldest. So records need neither a queue nor a copy, and a late
 * reader can tell which ones it has missed.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "vgpu/core.h"

#define TRAIL_WORDS (sizeof(struct vgpu_record) / sizeof(uint64_t))

struct trail_slot {
	_Atomic uint64_t words[TRAIL_WORDS];
};

struct trail {
	_Atomic uint64_t n; /* records ever written; record i is in slot i % size */
	uint64_t size;
	struct trail_slot *slots;
};

static_assert(sizeof(struct trail_slot) == sizeof(struct vgpu_record), "records are whole words");

/* SIZE, a power of two, is the number of records. False: out of memory. */
static inline bool trail_init(struct trail *t, uint32_t size)
{
	atomic_init(&t->n, 0);
	t->size = size;
	t->slots = calloc(size, sizeof(*t->slots));
	return t->slots != NULL;
}

static inline void trail_finish(struct trail *t)
{
	free(t->slots);
}

/* Adds a record. For one thread. */
static inline void trail_add(struct trail *t, const struct vgpu_record *record)
{
	uint64_t n = atomic_load_explicit(&t->n, memory_order_relaxed), words[TRAIL_WORDS];
	struct trail_slot *slot = &t->slots[n & (t->size - 1)];
	size_t i;

	memcpy(words, record, sizeof(words));
	/* A reader that sees a word of this record also sees N, and thus that the slot was reused.
	 */
#pragma GCC unroll 4
	for (i = 0; i < TRAIL_WORDS; i++)
		atomic_store_explicit(&slot->words[i], words[i], memory_order_release);
	atomic_store_explicit(&t->n, n + 1, memory_order_release);
}

/* Returns how many records were ever written. Any thread. */
static inline uint64_t trail_end(const struct trail *t)
{
	return atomic_load_explicit(&t->n, memory_order_acquire);
}

/* Returns the number of the oldest record that can be read now. Any thread. */
static inline uint64_t trail_begin(const struct trail *t)
{
	uint64_t n = trail_end(t);

	return n < t->size ? 0 : n - t->size + 1;
}

/* Copies record I, which was written; false: it was overwritten. Any thread. */
static inline bool trail_read(const struct trail *t, uint64_t i, struct vgpu_record *out)
{
	const struct trail_slot *slot = &t->slots[i & (t->size - 1)];
	uint64_t words[TRAIL_WORDS];
	size_t k;

	for (k = 0; k < TRAIL_WORDS; k++)
		words[k] = atomic_load_explicit(&slot->words[k], memory_order_acquire);
	memcpy(out, words, sizeof(words));
	return atomic_load_explicit(&t->n, memory_order_relaxed) - i < t->size;
}
