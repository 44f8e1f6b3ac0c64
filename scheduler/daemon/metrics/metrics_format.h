/* SPDX-License-Identifier: MIT */
/* Chooses the format of metrics that a client prefers. */
#pragma once

/* OpenMetrics 1.0, and Prometheus' older text format, 0.0.4. */
enum metrics_format { METRICS_TEXT = 0, METRICS_OPEN, METRICS_FORMATS };

extern const char *const metrics_media_types[METRICS_FORMATS];

/* Chooses by the value of the header Accept (RFC 9110, 12.5.1); NULL: none. OpenMetrics only for a
 * client that names and prefers it: browsers and curl show text. */
enum metrics_format metrics_choose(const char *accept);
