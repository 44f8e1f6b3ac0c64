/* SPDX-License-Identifier: MIT */
#include "forbear.h"

vgpu_nsec forbear_rest(vgpu_nsec cost, vgpu_nsec ran)
{
	if (cost == 0 || ran / 2 > cost)
		return VGPU_NEVER;
	return ran < cost ? cost - ran : 0;
}

vgpu_nsec forbear_wait(struct forbear *f, vgpu_nsec rest, vgpu_nsec most)
{
	f->waits = false;
	if (rest >= most)
		return 0;
	f->since++;
	if (f->misses >= FORBEAR_MISSES && f->since < FORBEAR_AGAIN)
		return 0;
	f->waits = true;
	return most;
}

void forbear_over(struct forbear *f, bool ended)
{
	if (!f->waits)
		return;
	f->waits = false;
	f->since = 0;
	if (ended)
		f->misses = 0;
	else if (f->misses < FORBEAR_MISSES)
		f->misses++;
}
