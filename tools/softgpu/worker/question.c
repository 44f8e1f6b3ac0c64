/* SPDX-License-Identifier: MIT */
/* Answers what a guest asks of its modules, and copies to and from their variables. Each structure
 * is copied out of the window before it is looked at, and each name is looked up anew: a copy in
 * several pieces is checked at each of them, whatever the guest has written meanwhile. */
#include "question.h"

#include <string.h>

#define PIECE_BYTES (UINT64_C(2) << 20) /* as a transfer's in piece.c */

static bool is_name(const char *name, size_t room)
{
	return memchr(name, 0, room);
}

static void answer_symbol(const struct question *q, void *at)
{
	struct softgpu_symbol s;

	memcpy(&s, at, sizeof(s));
	s.error = SOFTGPU_OK;
	s.pad = 0;
	s.at = s.bytes = 0;
	if (!q->loaded || !is_name(s.name, sizeof(s.name)) ||
	    q->ops->symbol(q->device, q->module, s.name, &s.at, &s.bytes) < 0)
		s.error = SOFTGPU_BAD_ARGUMENT;
	memcpy(at, &s, sizeof(s));
}

static void answer_occupancy(const struct question *q, void *at)
{
	struct softgpu_occupancy o;

	memcpy(&o, at, sizeof(o));
	o.error = SOFTGPU_OK;
	o.blocks = 0;
	if (!q->loaded || !is_name(o.name, sizeof(o.name)) ||
	    q->ops->occupancy(q->device, q->module, o.name, o.threads, o.shared, &o.blocks) < 0)
		o.error = SOFTGPU_BAD_LAUNCH;
	memcpy(at, &o, sizeof(o));
}

void question_answer(const struct question *q, uint32_t opcode, void *at)
{
	if (opcode == SOFTGPU_SYMBOL)
		answer_symbol(q, at);
	else
		answer_occupancy(q, at);
}

int question_copy(const struct question *q, const void *at, const struct packet_limits *limits,
		  const struct piece_space *space, uint64_t *done, struct piece *out)
{
	struct softgpu_symbol_copy c;
	uint64_t symbol, bytes, other;
	enum softgpu_error e;

	memcpy(&c, at, sizeof(c));
	if (!q->loaded || !is_name(c.name, sizeof(c.name)) || c.out > 1 ||
	    q->ops->symbol(q->device, q->module, c.name, &symbol, &bytes) < 0)
		return -SOFTGPU_BAD_ARGUMENT;
	if (c.offset > bytes || c.bytes > bytes - c.offset)
		return -SOFTGPU_OUT_OF_RANGE;
	e = packet_range(limits, c.other, c.bytes, 1);
	if (e != SOFTGPU_OK)
		return -(int)e;
	if (*done >= c.bytes)
		return 0;
	bytes = c.bytes - *done < PIECE_BYTES ? c.bytes - *done : PIECE_BYTES;
	symbol += c.offset + *done;
	other = piece_address(space, c.other) + *done;
	*done += bytes;
	*out = (struct piece){
		.kind = PIECE_TRANSFER,
		.dst = c.out ? other : symbol,
		.src = c.out ? symbol : other,
		.bytes = bytes,
	};
	return 1;
}
