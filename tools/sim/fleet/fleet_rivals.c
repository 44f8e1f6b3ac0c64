/* SPDX-License-Identifier: MIT */
#include "fleet_rivals.h"

#define WHOLE 1000u /* per mille of a GPU */
#define LEVELS 5u   /* 1 to 16 parts */

static uint64_t ppm(uint64_t used, uint32_t n)
{
	return used * 1000 / n;
}

uint64_t fleet_fill_whole(uint32_t n, fleet_next *next, void *data)
{
	uint64_t used = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		used += next(data).share;
	return ppm(used, n);
}

/* Returns the finest division (0: 1 part, 1: 2 parts, 2: 4 parts ...) of which one part is enough.
 */
static uint32_t level_of(const struct fleet_size *size, const struct fleet_options *o)
{
	uint32_t k = 0;

	while (k + 1 < LEVELS && 2u << k <= o->vfs && WHOLE >> (k + 1) >= size->share &&
	       o->memory_mib >> (k + 1) >= size->memory_mib)
		k++;
	return k;
}

uint64_t fleet_fill_profiles(uint32_t n, const struct fleet_options *o, fleet_next *next,
			     void *data)
{
	uint32_t empty = n, parts[LEVELS] = {0}, k;
	struct fleet_size size;
	uint64_t used = 0;

	for (;;) {
		size = next(data);
		k = level_of(&size, o);
		if (parts[k] == 0 && empty == 0)
			return ppm(used, n);
		if (parts[k] == 0) {
			empty--;
			parts[k] = 1u << k;
		}
		parts[k]--;
		used += size.share;
	}
}
