/* SPDX-License-Identifier: MIT */
/* Writes metrics as text. Control thread. */
#pragma once

#include <event2/buffer.h>

#include "engine/engine_request.h"
#include "metrics_format.h"
#include "control/state.h"

/* The inputs of one GPU's metrics. */
struct metrics_look {
	struct engine_snapshot snapshot;
	int64_t largest_share;	 /* largest share that one more VM would be guaranteed, in per mille
				  */
	uint64_t largest_memory; /* largest size of one more partition, bytes */
};

/* Adds all metrics to OUT, in FORMAT. LOOKS has the inputs of each of CONTROL's GPUs, in their
 * order; NULL: that GPU has no samples. */
void metrics_write(struct evbuffer *out, enum metrics_format format, const struct control *control,
		   struct metrics_look *const *looks);
