/* SPDX-License-Identifier: MIT */
/* For comparison: how full a fleet with the same servers gets without a scheduler of shares. */
#pragma once

#include "fleet_host.h"

/* Draws the next server. */
typedef struct fleet_size fleet_next(void *data);

/* Returns which part of the time of all N GPUs, in ppm, the servers have asked for that were placed
 * before the first that was not, if each server has a whole GPU. */
uint64_t fleet_fill_whole(uint32_t n, fleet_next *next, void *data);
/* The same, if each GPU is divided into equal parts (1, 2, 4, ...) when its first server comes, and
 * a server has one part that is large enough, as with vendors' fixed vGPU types. Any GPU of the
 * fleet may be chosen, so no scheduler can do better. */
uint64_t fleet_fill_profiles(uint32_t n, const struct fleet_options *o, fleet_next *next,
			     void *data);
