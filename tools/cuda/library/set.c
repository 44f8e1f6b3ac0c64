/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "copy.h"

/* Writes PATTERN, which repeats every four bytes of address, through the window: to bytes that
 * FILL, which writes aligned words, cannot write, and to variables. */
static CUresult set_bytes(const struct copy_place *p, uint64_t from, CUdeviceptr dst,
			  uint32_t pattern, uint64_t bytes)
{
	uint64_t done, n, at, i;
	CUresult e = CUDA_SUCCESS;
	uint8_t *memory;

	for (done = 0; done < bytes && e == CUDA_SUCCESS; done += n) {
		n = copy_step(bytes - done);
		e = link_stage(&n, &memory, &at);
		if (e != CUDA_SUCCESS)
			break;
		for (i = 0; i < n; i++)
			memory[i] = (uint8_t)(pattern >> 8 * ((dst + done + i) % 4));
		e = copy_in(p, from + done, at, n);
	}
	return e;
}

/* Sets BYTES at DST, which are at P. */
static CUresult set_row(const struct copy_place *p, CUdeviceptr dst, uint32_t pattern,
			uint64_t bytes)
{
	uint64_t head = (4 - dst % 4) % 4, words;
	CUresult e;

	if (p->symbol)
		return set_bytes(p, 0, dst, pattern, bytes);
	head = head < bytes ? head : bytes;
	words = (bytes - head) / 4 * 4;
	e = set_bytes(p, 0, dst, pattern, head);
	if (e == CUDA_SUCCESS && words > 0)
		e = link_put(SOFTGPU_FILL, 0, (uint64_t[7]){p->offset + head, words, pattern});
	if (e == CUDA_SUCCESS)
		e = set_bytes(p, head + words, dst + head + words, pattern, bytes - head - words);
	return e;
}

/* Writes eight bytes by one packet, so that a program that polls them in mapped memory never sees
 * half of them. */
static CUresult set_word(const struct copy_place *p, uint64_t value)
{
	uint64_t n = sizeof(value), at;
	uint8_t *memory;
	CUresult e = link_stage(&n, &memory, &at);

	if (e != CUDA_SUCCESS)
		return e;
	memcpy(memory, &value, sizeof(value));
	if (p->symbol)
		return copy_in(p, 0, at, sizeof(value));
	return link_put(SOFTGPU_COPY, 0, (uint64_t[7]){p->offset, at, sizeof(value)});
}

/* Finds the memory that W sets: ALL bytes at P, in rows of WIDTH bytes. Returns false if it does
 * not exist. */
static bool find(const struct work_set *w, uint64_t *width, uint64_t *all, struct copy_place *p)
{
	return w->at % w->unit == 0 && (w->rows == 1 || w->pitch % w->unit == 0) &&
	       !__builtin_mul_overflow(w->width, w->unit, width) &&
	       (w->rows == 1 || w->pitch >= *width) &&
	       !__builtin_mul_overflow(w->rows - 1, w->pitch, all) &&
	       !__builtin_add_overflow(*all, *width, all) && copy_find(w->at, *all, p);
}

static bool is_nothing(const struct work_set *w)
{
	return w->width == 0 || w->rows == 0;
}

CUresult set_check(const struct work_set *w)
{
	struct copy_place p;
	uint64_t width, all;

	return is_nothing(w) || find(w, &width, &all, &p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_run(const struct work_set *w)
{
	const uint32_t value = (uint32_t)w->value;
	const uint32_t pattern = w->unit == 1	? value % 256 * 0x01010101u
				 : w->unit == 2 ? value % 65536 * 0x00010001u
						: value;
	uint64_t width, all, row;
	struct copy_place p;
	CUresult e = CUDA_SUCCESS;

	if (is_nothing(w))
		return CUDA_SUCCESS;
	if (!find(w, &width, &all, &p))
		return CUDA_ERROR_INVALID_VALUE;
	if (w->unit == 8) {
		e = set_word(&p, w->value);
		return e == CUDA_SUCCESS ? link_ring() : e;
	}
	if (w->rows == 1 || w->pitch == width) {
		e = set_row(&p, w->at, pattern, all);
		return e == CUDA_SUCCESS ? link_ring() : e;
	}
	for (row = 0; row < w->rows && e == CUDA_SUCCESS; row++) {
		e = set_row(&p, w->at + row * w->pitch, pattern, width);
		p.offset += w->pitch;
	}
	return e == CUDA_SUCCESS ? link_ring() : e;
}
