/* SPDX-License-Identifier: MIT */
/* Writes metrics as text. Control thread. */
#ifndef DAEMON_METRICS_TEXT_H
#define DAEMON_METRICS_TEXT_H

#include <event2/buffer.h>

#include "engine_request.h"
#include "metrics_format.h"
#include "state.h"

/* Adds all metrics to OUT, in FORMAT. LOOKS has a snapshot of each of CONTROL's GPUs, in their
 * order; NULL: that GPU has none, and no samples. */
void metrics_write(struct evbuffer *out, enum metrics_format format, const struct control *control,
		   struct engine_snapshot *const *looks);

#endif
