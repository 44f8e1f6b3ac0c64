/* SPDX-License-Identifier: MIT */
#include "allowance.h"

/* What can be saved up. */
#define SAVED ((int64_t)(40 * VGPU_MSEC))
/* What can be owed, so that a VF's next tenant does not wait for what the last one did. */
#define OWED ((int64_t)(10 * VGPU_MSEC))
/* Parts of a CPU are counted in these; and any bucket is full after that time. */
#define WHOLE UINT64_C(100000)
#define FILLED (60 * VGPU_SEC)

void allowance_begin(struct allowance *a, vgpu_nsec now)
{
	*a = (struct allowance){SAVED, now};
}

void allowance_charge(struct allowance *a, vgpu_nsec used)
{
	a->left -= (int64_t)used;
}

vgpu_nsec allowance_owes(struct allowance *a, uint32_t n, vgpu_nsec now)
{
	uint64_t part = ALLOWANCE_ALL * (WHOLE / 100) / (n ? n : 1);
	int64_t gained;

	if (part > ALLOWANCE_VF * (WHOLE / 100))
		part = ALLOWANCE_VF * (WHOLE / 100);
	if (now - a->at > FILLED)
		a->at = now - FILLED;
	gained = (int64_t)((now - a->at) * part / WHOLE);
	a->at += (vgpu_nsec)gained * WHOLE / part; /* what is less than 1 ns counts next time */
	a->left = a->left + gained > SAVED ? SAVED : a->left + gained;
	if (a->left < -OWED)
		a->left = -OWED;
	return a->left < 0 ? (vgpu_nsec)-a->left * WHOLE / part : 0;
}
