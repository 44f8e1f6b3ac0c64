/* SPDX-License-Identifier: MIT */
/*
 * The latest value that one thread publishes to one other, without locks: the writer never waits,
 * and the reader always sees a whole value. Of three places the writer owns one, the reader one,
 * and they exchange the third.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define LATEST_FRESH 4u /* the reader has not fetched this value yet */

struct latest {
	_Atomic uint32_t middle;
	uint32_t back, front; /* owned by the writer; by the reader */
	size_t size;
	char *places;
};

static inline bool latest_init(struct latest *l, size_t size)
{
	l->places = calloc(3, size);
	l->size = size;
	l->front = 0;
	l->back = 2;
	atomic_init(&l->middle, 1);
	return l->places != NULL;
}

static inline void latest_finish(struct latest *l)
{
	free(l->places);
}

/* Returns the place for the next value, which holds an old one. */
static inline void *latest_next(const struct latest *l)
{
	return l->places + l->back * l->size;
}

static inline void latest_publish(struct latest *l)
{
	l->back =
		atomic_exchange_explicit(&l->middle, l->back | LATEST_FRESH, memory_order_acq_rel) &
		~LATEST_FRESH;
}

/* Returns the latest value, for the reader; valid until its next call. */
static inline const void *latest_get(struct latest *l)
{
	if (atomic_load_explicit(&l->middle, memory_order_relaxed) & LATEST_FRESH)
		l->front = atomic_exchange_explicit(&l->middle, l->front, memory_order_acq_rel) &
			   ~LATEST_FRESH;
	return l->places + l->front * l->size;
}
