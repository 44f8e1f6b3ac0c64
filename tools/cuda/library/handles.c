/* SPDX-License-Identifier: MIT */
#include "handles.h"

#include <stdbool.h>
#include <stdlib.h>

#define GROW 256u

struct handle_row *handle_rows;
uint32_t handle_n_rows;
static uint32_t first_free = UINT32_MAX;

static bool grow(void)
{
	struct handle_row *more =
		realloc(handle_rows, (handle_n_rows + GROW) * sizeof(*handle_rows));
	uint32_t i;

	if (!more)
		return false;
	handle_rows = more;
	for (i = handle_n_rows; i < handle_n_rows + GROW; i++) {
		handle_rows[i] = (struct handle_row){HANDLE_FREE, 0, first_free, NULL};
		first_free = i;
	}
	handle_n_rows += GROW;
	return true;
}

void *handle_make(enum handle_kind kind, void *object)
{
	struct handle_row *row;
	uint32_t i;

	if (first_free == UINT32_MAX && !grow())
		return NULL;
	i = first_free;
	row = &handle_rows[i];
	first_free = row->next_free;
	row->kind = kind;
	row->object = object;
	row->generation++;
	return (void *)(uintptr_t)((uint64_t)row->generation << 32 | (i + HANDLE_FIRST));
}

void *handle_drop(enum handle_kind kind, const void *h)
{
	struct handle_row *row = handle_row(kind, h);

	if (!row)
		return NULL;
	row->kind = HANDLE_FREE;
	row->next_free = first_free;
	first_free = (uint32_t)(row - handle_rows);
	return row->object;
}

void *handle_next(enum handle_kind kind, uint32_t *at)
{
	while (*at < handle_n_rows) {
		const struct handle_row *row = &handle_rows[(*at)++];

		if (row->kind == kind)
			return row->object;
	}
	return NULL;
}

uint64_t handle_number(void)
{
	static uint64_t last;

	return ++last;
}
