/* SPDX-License-Identifier: MIT */
/* Numbers that look random and are the same in each run: Knuth's generator for MMIX (TAOCP 3.3.4),
 * whose upper bits are the better ones. */
#pragma once

#include <stdint.h>

static uint64_t draw(uint64_t below)
{
	static uint64_t seed = 1;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 20) % below;
}
