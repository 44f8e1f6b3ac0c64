/* SPDX-License-Identifier: MIT */
/* SYMBOL, OCCUPANCY and SYMBOL_COPY. Only the ring's thread calls these; nothing is kept. */
#pragma once

#include "packet.h"
#include "piece.h"

/* About which module, and whether it is loaded. */
struct question {
	const struct device_ops *ops;
	struct device *device;
	uint32_t module;
	bool loaded;
};

/* Reads the structure of OPCODE, SYMBOL or OCCUPANCY, at AT in the window, and writes the answer to
 * it. A name that is not found is no error of the VF. */
void question_answer(const struct question *q, uint32_t opcode, void *at);

/* Makes the next piece of a SYMBOL_COPY whose structure is at AT in the window. *DONE: bytes that
 * have become pieces. 1: *OUT is a piece; 0: there are no more; negative: an enum softgpu_error. */
int question_copy(const struct question *q, const void *at, const struct packet_limits *limits,
		  const struct piece_space *space, uint64_t *done, struct piece *out);
