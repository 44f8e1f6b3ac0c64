/* SPDX-License-Identifier: MIT */
/*
 * A bounded queue from one thread to one other, without locks: the engine thread must never wait
 * for a slower one. Push and pop copy elements; push returns false if the queue is full.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct spsc {
	_Atomic uint32_t head, tail; /* next to read, next to write; they wrap by themselves */
	uint32_t mask, size;
	char *slots;
};

/* N, a power of two: number of elements; SIZE: bytes of each. False: out of memory. */
static inline bool spsc_init(struct spsc *q, uint32_t n, uint32_t size)
{
	q->mask = n - 1;
	q->size = size;
	q->slots = calloc(n, size);
	return q->slots != NULL;
}

static inline void spsc_finish(struct spsc *q)
{
	free(q->slots);
}

static inline bool spsc_push(struct spsc *q, const void *element)
{
	uint32_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(&q->head, memory_order_acquire);

	if (tail - head > q->mask)
		return false;
	memcpy(q->slots + (size_t)(tail & q->mask) * q->size, element, q->size);
	atomic_store_explicit(&q->tail, tail + 1, memory_order_release);
	return true;
}

static inline bool spsc_pop(struct spsc *q, void *element)
{
	uint32_t head = atomic_load_explicit(&q->head, memory_order_relaxed);

	if (head == atomic_load_explicit(&q->tail, memory_order_acquire))
		return false;
	memcpy(element, q->slots + (size_t)(head & q->mask) * q->size, q->size);
	atomic_store_explicit(&q->head, head + 1, memory_order_release);
	return true;
}

/* For the thread that pops. */
static inline bool spsc_is_empty(const struct spsc *q)
{
	return atomic_load_explicit(&q->head, memory_order_relaxed) ==
	       atomic_load_explicit(&q->tail, memory_order_acquire);
}
