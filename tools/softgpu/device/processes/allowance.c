/* SPDX-License-Identifier: MIT */
#include "allowance.h"

/* The unit of parts of a CPU. An empty bucket is full again after this time. */
#define WHOLE UINT64_C(100000)
#define FILLED (60 * VGPU_SEC)

const struct allowance_limits allowance_causes = {.vf = 5,
						  .all = 20,
						  .saved = 40 * VGPU_MSEC,
						  .owed = 10 * VGPU_MSEC};
/* A process uses its loan at once. So in any second it uses at most what came in that second and
 * what was saved up: less than 5 % of a CPU for one VF, and less than 20 % for 31. A process that
 * stops when it is told needs some 20 us. */
const struct allowance_limits allowance_loans = {.vf = 2,
						 .all = 8,
						 .saved = 3 * VGPU_MSEC,
						 .owed = 20 * VGPU_MSEC};

void allowance_begin(struct allowance *a, const struct allowance_limits *limits, vgpu_nsec now)
{
	*a = (struct allowance){limits, limits->saved, now};
}

void allowance_charge(struct allowance *a, vgpu_nsec used)
{
	a->left -= (int64_t)used;
}

/* Adds what has come since it was asked last. Returns the part of a CPU that comes, of WHOLE. */
static uint64_t fill(struct allowance *a, uint32_t n, vgpu_nsec now)
{
	const struct allowance_limits *most = a->limits;
	uint64_t part = most->all * (WHOLE / 100) / (n ? n : 1);
	int64_t gained;

	if (part > most->vf * (WHOLE / 100))
		part = most->vf * (WHOLE / 100);
	if (now - a->at > FILLED)
		a->at = now - FILLED;
	gained = (int64_t)((now - a->at) * part / WHOLE);
	a->at += (vgpu_nsec)gained * WHOLE / part; /* the remainder below 1 ns counts next time */
	a->left = a->left + gained > most->saved ? most->saved : a->left + gained;
	if (a->left < -most->owed)
		a->left = -most->owed;
	return part;
}

vgpu_nsec allowance_has(struct allowance *a, uint32_t n, vgpu_nsec now)
{
	fill(a, n, now);
	return a->left > 0 ? (vgpu_nsec)a->left : 0;
}

vgpu_nsec allowance_owes(struct allowance *a, uint32_t n, vgpu_nsec now)
{
	uint64_t part = fill(a, n, now);

	return a->left < 0 ? (vgpu_nsec)-a->left * WHOLE / part : 0;
}
