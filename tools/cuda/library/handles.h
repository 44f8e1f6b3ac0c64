/* SPDX-License-Identifier: MIT */
/* Handles of all objects that programs get: contexts, modules, streams and so on. Called with the
 * library's lock. */
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

/* A handle is HANDLE_FIRST plus the number of a row, and in its upper half the row's generation. So
 * a handle that was ended, or never made, is recognised without reading memory through it. */
struct handle_row {
	enum handle_kind kind;
	uint32_t generation, next_free;
	void *object;
};
extern struct handle_row *handle_rows;
extern uint32_t handle_n_rows;
/* Larger than the handles with a fixed meaning, which are the default streams, 1 and 2. */
#define HANDLE_FIRST 0x100u

/* Makes a handle for OBJECT. Returns NULL if out of memory. */
void *handle_make(enum handle_kind kind, void *object);
/* Ends the handle. Returns its object, which the caller owns again, or NULL. */
void *handle_drop(enum handle_kind kind, const void *h);
/* Returns the next object of KIND. *AT is 0 for the first call. NULL: there is none left. */
void *handle_next(enum handle_kind kind, uint32_t *at);

/* Returns a number that no other object has or had, for objects without a handle. */
uint64_t handle_number(void);

/* handle_row() returns the row of a handle, handle_find() its object; NULL: H is no handle of KIND.
 * They are inline because a launch looks up as many as four: where QEMU emulates the CPU, a return
 * takes as long as ten other instructions. */
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
