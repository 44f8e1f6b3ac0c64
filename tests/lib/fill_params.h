/* SPDX-License-Identifier: MIT */
#pragma once

#include "device.h"

/* The parameters of fill(dst, words, value): 8 bytes each. */
static inline void fill_params(struct device_params *params)
{
	uint32_t i;

	params->n = 3;
	params->bytes = 24;
	for (i = 0; i < 3; i++) {
		params->offset[i] = i * 8;
		params->size[i] = 8;
	}
}
