/* SPDX-License-Identifier: MIT */
/* How full a fleet gets by other means, with the same servers: for comparison. */
#ifndef SIM_FLEET_RIVALS_H
#define SIM_FLEET_RIVALS_H

#include "fleet_host.h"

/* Draws the next server. */
typedef struct fleet_size fleet_next(void *data);

/* Return which part of the time of all N GPUs the servers have asked for, in ppm, that were placed
 * before the first that was not. Whole: each server has a GPU. */
uint64_t fleet_fill_whole(uint32_t n, fleet_next *next, void *data);
/* Profiles: each GPU is divided into equal parts, 1, 2, 4, ... of them, when its first server
 * comes, and a server has one part that is large enough; as with vendors' fixed vGPU types. Any GPU
 * of the fleet may be chosen, so a scheduler cannot do better. */
uint64_t fleet_fill_profiles(uint32_t n, const struct fleet_options *o, fleet_next *next,
			     void *data);

#endif
