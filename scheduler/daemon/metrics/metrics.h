/* SPDX-License-Identifier: MIT */
/* Serves metrics as OpenMetrics over HTTP (prometheus.io/docs/specs/om). Control thread. */
#pragma once

#include "control/state.h"

struct metrics;

/* Starts to answer GET and HEAD /metrics at WHERE, which must live as long; "": does nothing, and
 * *OUT is NULL. If it cannot listen there, it logs that, and tries again. Returns 0, or -ENOMEM
 * with the reason in ERR. */
int metrics_start(struct metrics **out, struct control *control, const char *where,
		  struct vgpu_error *err);
/* Stops answering, and frees METRICS, which may be NULL. */
void metrics_stop(struct metrics *metrics);
