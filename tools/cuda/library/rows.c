/* SPDX-License-Identifier: MIT */
/* Copies of rows and layers of rows. */
#include <string.h>

#include "copy.h"

/* Returns where row ROW of LAYER begins. */
static uint64_t row_at(const struct work_side *s, uint64_t row, uint64_t layer)
{
	return (layer * s->height + row) * s->pitch;
}

/* Computes the bytes from the first one of a side to its last one. Returns false if they do not fit
 * into 64 bits. */
static bool span(const struct work_side *s, const struct work_copy *w, uint64_t *bytes)
{
	uint64_t rows, all;

	return !__builtin_mul_overflow(w->layers - 1, s->height, &rows) &&
	       !__builtin_add_overflow(rows, w->rows - 1, &rows) &&
	       !__builtin_mul_overflow(rows, s->pitch, &all) &&
	       !__builtin_add_overflow(all, w->width, bytes);
}

/* Returns whether all bytes from the first to the last one of side S exist. */
static bool is_there(const struct work_side *s, const struct work_copy *w)
{
	struct copy_place p;
	uint64_t bytes;

	if (!span(s, w, &bytes) || (w->rows > 1 && s->pitch < w->width) ||
	    (w->layers > 1 && s->height < w->rows))
		return false;
	return s->host ? s->memory != NULL : copy_find(s->at, bytes, &p);
}

static bool is_in_a_row(const struct work_side *s, const struct work_copy *w)
{
	return (w->rows == 1 || s->pitch == w->width) &&
	       (w->layers == 1 || (s->pitch == w->width && s->height == w->rows));
}

static CUresult copy_row(const struct work_side *to, uint64_t at, const struct work_side *from,
			 uint64_t from_at, uint64_t bytes)
{
	if (to->host && from->host) {
		memmove(to->memory + at, from->memory + from_at, bytes);
		return CUDA_SUCCESS;
	}
	if (to->host)
		return copy_to_host(to->memory + at, from->at + from_at, bytes);
	if (from->host)
		return copy_to_device(to->at + at, from->memory + from_at, bytes);
	return copy_on_device(to->at + at, from->at + from_at, bytes);
}

/* Copies N rows of LAYER, from ROW on, to or from the host, through one part of the window. */
static CUresult batch(const struct work_copy *w, uint64_t layer, uint64_t row, uint64_t n)
{
	const struct work_side *device = w->to.host ? &w->from : &w->to;
	uint64_t bytes = n * w->width, at, i;
	struct copy_place place;
	uint8_t *memory;
	CUresult e = link_stage(&bytes, &memory, &at);

	for (i = 0; i < n && e == CUDA_SUCCESS; i++) {
		uint64_t from = row_at(&w->from, row + i, layer);

		copy_find(device->at + row_at(device, row + i, layer), w->width, &place);
		if (w->to.host) {
			e = copy_out(&place, 0, at + i * w->width, w->width);
			continue;
		}
		memcpy(memory + i * w->width, w->from.memory + from, w->width);
		e = copy_in(&place, 0, at + i * w->width, w->width);
	}
	if (e != CUDA_SUCCESS)
		return e;
	if (!w->to.host)
		return link_ring();
	e = link_wait();
	for (i = 0; i < n && e == CUDA_SUCCESS; i++)
		memcpy(w->to.memory + row_at(&w->to, row + i, layer), memory + i * w->width,
		       w->width);
	return e;
}

/* Returns the number of rows in a batch; 0: each row is a separate copy. */
static uint64_t batch_of(const struct work_copy *w)
{
	const struct work_side *host = w->to.host ? &w->to : &w->from;
	uint64_t n = copy_step(UINT64_MAX) / w->width, bytes;

	if (w->to.host == w->from.host || !span(host, w, &bytes) ||
	    pinned_touches(host->memory, bytes))
		return 0;
	return n < LINK_BATCH ? n : LINK_BATCH;
}

static bool is_nothing(const struct work_copy *w)
{
	return w->width == 0 || w->rows == 0 || w->layers == 0;
}

CUresult copy_check(const struct work_copy *w)
{
	return is_nothing(w) || (is_there(&w->to, w) && is_there(&w->from, w))
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_run(const struct work_copy *w)
{
	uint64_t layer, row, n, each;
	CUresult e = copy_check(w);
	bool held = false;

	if (e != CUDA_SUCCESS || is_nothing(w))
		return e;
	if (w->from.host && w->to.host)
		e = link_wait(); /* waits, because the copy has its place in the order of the
				  * stream */
	if (e != CUDA_SUCCESS)
		return e;
	if (is_in_a_row(&w->to, w) && is_in_a_row(&w->from, w))
		return copy_row(&w->to, 0, &w->from, 0, w->width * w->rows * w->layers);
	each = batch_of(w);
	if (each == 0)
		held = link_hold(true); /* one doorbell for all rows */
	for (layer = 0; layer < w->layers; layer++)
		for (row = 0; row < w->rows && e == CUDA_SUCCESS; row += n) {
			n = each ? each : 1;
			n = n < w->rows - row ? n : w->rows - row;
			e = each ? batch(w, layer, row, n)
				 : copy_row(&w->to, row_at(&w->to, row, layer), &w->from,
					    row_at(&w->from, row, layer), w->width);
		}
	if (each == 0)
		link_hold(held);
	return e == CUDA_SUCCESS ? link_ring() : e;
}
