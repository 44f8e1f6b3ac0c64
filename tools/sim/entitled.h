/* SPDX-License-Identifier: MIT */
/*
 * What an ideal fluid server would give to tenants that pause: it shares its speed by weight, at
 * each instant, among those that have work, and a tenant pauses when its own work is done. The
 * server of judges/fluid.h gets the work as it arose in the real run. This one knows only the mean
 * speed of the run.
 */
#pragma once

#include "random.h"

/*
 * Writes to HAD the service of each VF of S from `work_from` to the end, in ns. WEIGHTS: of each
 * VF. SPEED: service in a ns. Returns false if a tenant does not work always, in bursts, at ticks
 * or never.
 */
bool entitled(const struct scenario *s, const double *weights, double speed, double *had);
