/* SPDX-License-Identifier: MIT */
/* The clock of all programs. Pure parts get the time as an argument and do not include this
 * header. */
#pragma once

#include <time.h>

#include "vgpu/types.h"

/* Returns nanoseconds of CLOCK_MONOTONIC. Any thread. */
static inline vgpu_nsec vgpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (vgpu_nsec)t.tv_sec * VGPU_SEC + (vgpu_nsec)t.tv_nsec;
}
