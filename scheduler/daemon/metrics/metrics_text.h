/* SPDX-License-Identifier: MIT */
/* Writes metrics as text. Control thread. */
#ifndef DAEMON_METRICS_TEXT_H
#define DAEMON_METRICS_TEXT_H

#include <event2/buffer.h>

#include "engine/engine_request.h"
#include "metrics_format.h"
#include "control/state.h"

/* What metrics are made from, of one GPU. */
struct metrics_look {
	struct engine_snapshot snapshot;
	int64_t largest_share;	 /* that one more VM would be guaranteed, in per mille */
	uint64_t largest_memory; /* for one more partition, in bytes */
};

/* Adds all metrics to OUT, in FORMAT. LOOKS has what is known of each of CONTROL's GPUs, in their
 * order; NULL: that GPU has none, and no samples. */
void metrics_write(struct evbuffer *out, enum metrics_format format, const struct control *control,
		   struct metrics_look *const *looks);

#endif
