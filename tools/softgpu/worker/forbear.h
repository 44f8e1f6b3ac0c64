/* SPDX-License-Identifier: MIT */
/*
 * Decides whether work whose end is near is stopped hard. A hard stop takes the GPU's time twice:
 * to stop, and to continue. So it is of no use for work that ends sooner. The rest of a GPU kernel
 * is predicted from what it took before. If it ends later than that, the VF pays for its overrun,
 * as for any other.
 *
 * A guest can make the prediction as wrong as it likes, with GPU kernels that were short and are
 * long when their slice ends. So a wait has a bound that no guest can change; and after
 * FORBEAR_MISSES waits in vain in a row, only one stop in FORBEAR_AGAIN waits, until a wait is not
 * in vain.
 *
 * Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vgpu/types.h"

#define FORBEAR_MISSES 3u
#define FORBEAR_AGAIN 64u

/* Zeros at first. */
struct forbear {
	uint32_t misses; /* waits in vain, in a row */
	uint32_t since;	 /* stops since the last wait in vain */
	bool waits;
};

/* Returns the rest, in ns, of a GPU kernel that took COST before and has run for RAN. VGPU_NEVER:
 * it cannot be predicted, because COST is not known (0), or was exceeded twice. */
vgpu_nsec forbear_rest(vgpu_nsec cost, vgpu_nsec ran);
/* Work must stop whose rest is REST ns. Returns how long to wait for its end before it is stopped
 * hard: MOST, or 0. */
vgpu_nsec forbear_wait(struct forbear *f, vgpu_nsec rest, vgpu_nsec most);
/* The stop is over. ENDED: the work has ended, and was not stopped hard. */
void forbear_over(struct forbear *f, bool ended);
