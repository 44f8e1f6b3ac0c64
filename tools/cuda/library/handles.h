/* SPDX-License-Identifier: MIT */
/* Numbers for contexts, modules, functions, streams and events: all with the library's lock. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum handle_kind {
	HANDLE_FREE = 0,
	HANDLE_CONTEXT,
	HANDLE_MODULE,
	HANDLE_FUNCTION,
	HANDLE_STREAM,
	HANDLE_EVENT,
	HANDLE_POOL,
	HANDLE_LINKER,
	HANDLE_GRAPH,
	HANDLE_NODE,
	HANDLE_INSTANCE,
	HANDLE_PHYSICAL,
	HANDLE_OBJECT,
};

/* A handle is the number of a row plus the row's generation, so that a handle that was ended, or
 * never made, is found out without a look at the memory that it might point to. */
struct handle_row {
	enum handle_kind kind;
	uint32_t generation, next_free;
	void *object;
};
extern struct handle_row *handle_rows;
extern uint32_t handle_n_rows;
/* Above the handles with a meaning of their own: the default streams, 1 and 2. */
#define HANDLE_FIRST 0x100u

/* A handle for OBJECT; NULL: out of memory. A number is not used twice in a row. */
void *handle_make(enum handle_kind kind, void *object);
/* Ends the handle. Returns its object, which is the caller's again, or NULL. */
void *handle_drop(enum handle_kind kind, const void *h);
/* Returns the next object of KIND. *AT is 0 for the first call. NULL: there is none left. */
void *handle_next(enum handle_kind kind, uint32_t *at);

/* A number of no other object, not even of one that has ended: for what has no handle. */
uint64_t handle_number(void);

/* The row of the handle, and its object; NULL: H is no handle of KIND. They are here because a
 * launch looks for up to four: where QEMU emulates the CPU, a return takes as long as ten other
 * instructions. */
static inline struct handle_row *handle_row(enum handle_kind kind, const void *h)
{
	uint64_t v = (uintptr_t)h;
	uint32_t i = (uint32_t)v - HANDLE_FIRST;

	if ((uint32_t)v < HANDLE_FIRST || i >= handle_n_rows || handle_rows[i].kind != kind ||
	    handle_rows[i].generation != v >> 32)
		return NULL;
	return &handle_rows[i];
}

static inline void *handle_find(enum handle_kind kind, const void *h)
{
	struct handle_row *row = handle_row(kind, h);

	return row ? row->object : NULL;
}
