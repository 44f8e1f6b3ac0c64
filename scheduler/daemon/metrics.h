/* SPDX-License-Identifier: MIT */
/* Figures for monitoring, as OpenMetrics over HTTP (prometheus.io/docs/specs/om). Control thread.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include "control.h"

struct metrics;

/* Whether WHERE is an address that figures may be offered at: "127.0.0.1:PORT", "[::1]:PORT" or
 * "unix:PATH". */
bool metrics_is_address(const char *where);

/* Answers GET /metrics at WHERE; "": nowhere, and *OUT is NULL. 0 or -errno with the reason. */
int metrics_start(struct metrics **out, struct control *control, const char *where,
		  struct vgpu_error *err);
/* NULL is allowed. */
void metrics_stop(struct metrics *metrics);

#endif
