/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "vfio/device.h"
#include "vfio/gpuiov.h"

#define EXT_CAP_FIRST 0x100u
#define EXT_CAP_END 0x1000u

bool vfio_find_ext_cap(const uint8_t *config, uint16_t id, uint16_t *at)
{
	uint32_t header, pos, left;

	/* Limits the walk, also for a circular chain: it cannot have more members than the space
	 * has places. */
	pos = EXT_CAP_FIRST;
	if (*at) {
		memcpy(&header, config + *at, sizeof(header));
		pos = header >> 20;
	}
	for (left = (EXT_CAP_END - EXT_CAP_FIRST) / 8; left > 0; left--) {
		if (pos < EXT_CAP_FIRST || pos > EXT_CAP_END - 8 || pos % 4)
			return false;
		memcpy(&header, config + pos, sizeof(header));
		if (header == 0 || header == UINT32_MAX)
			return false;
		if ((header & 0xffff) == id && pos != *at) {
			*at = (uint16_t)pos;
			return true;
		}
		pos = header >> 20;
	}
	return false;
}
