/* SPDX-License-Identifier: MIT */
/* A handle is the number of a row plus the row's generation, so that a handle that was ended, or
 * never made, is found out without a look at the memory that it might point to. */
#include <stdlib.h>

#include "library.h"

/* Above the handles with a meaning of their own: the default streams, 1 and 2. */
#define FIRST 0x100u
#define GROW 256u

struct row {
	enum handle_kind kind;
	uint32_t generation, next_free;
	void *object;
};

static struct row *rows;
static uint32_t n_rows, first_free = UINT32_MAX;

static bool grow(void)
{
	struct row *more = realloc(rows, (n_rows + GROW) * sizeof(*rows));
	uint32_t i;

	if (!more)
		return false;
	rows = more;
	for (i = n_rows; i < n_rows + GROW; i++) {
		rows[i] = (struct row){HANDLE_FREE, 0, first_free, NULL};
		first_free = i;
	}
	n_rows += GROW;
	return true;
}

void *handle_make(enum handle_kind kind, void *object)
{
	struct row *row;
	uint32_t i;

	if (first_free == UINT32_MAX && !grow())
		return NULL;
	i = first_free;
	row = &rows[i];
	first_free = row->next_free;
	row->kind = kind;
	row->object = object;
	row->generation++;
	return (void *)(uintptr_t)((uint64_t)row->generation << 32 | (i + FIRST));
}

static struct row *find(enum handle_kind kind, const void *h)
{
	uint64_t v = (uintptr_t)h;
	uint32_t i = (uint32_t)v - FIRST;

	if ((uint32_t)v < FIRST || i >= n_rows || rows[i].kind != kind ||
	    rows[i].generation != v >> 32)
		return NULL;
	return &rows[i];
}

void *handle_find(enum handle_kind kind, const void *h)
{
	struct row *row = find(kind, h);

	return row ? row->object : NULL;
}

void *handle_drop(enum handle_kind kind, const void *h)
{
	struct row *row = find(kind, h);

	if (!row)
		return NULL;
	row->kind = HANDLE_FREE;
	row->next_free = first_free;
	first_free = (uint32_t)(row - rows);
	return row->object;
}

void *handle_next(enum handle_kind kind, uint32_t *at)
{
	while (*at < n_rows) {
		const struct row *row = &rows[(*at)++];

		if (row->kind == kind)
			return row->object;
	}
	return NULL;
}
