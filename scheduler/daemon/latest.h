/* SPDX-License-Identifier: MIT */
/*
 * The latest value of something, from one thread to one other, without locks: the writer never
 * waits for the reader, who always has a whole value. Of three places one is the writer's, one the
 * reader's, and one changes hands.
 */
#ifndef DAEMON_LATEST_H
#define DAEMON_LATEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define LATEST_FRESH 4u /* the reader has not had it yet */

struct latest {
	_Atomic uint32_t middle;
	uint32_t back, front; /* the writer's, and the reader's */
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

/* Where the writer prepares the next value; what it finds there is an old one. */
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

/* The reader's; valid until it asks again. */
static inline const void *latest_get(struct latest *l)
{
	if (atomic_load_explicit(&l->middle, memory_order_relaxed) & LATEST_FRESH)
		l->front = atomic_exchange_explicit(&l->middle, l->front, memory_order_acq_rel) &
			   ~LATEST_FRESH;
	return l->places + l->front * l->size;
}

#endif
