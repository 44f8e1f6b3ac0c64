/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>

#include "vhost.h"

uint64_t vhost_random(struct vhost *h)
{
	/* xorshift64*, Vigna 2016 */
	h->rng ^= h->rng >> 12;
	h->rng ^= h->rng << 25;
	h->rng ^= h->rng >> 27;
	return h->rng * UINT64_C(2685821657736338717);
}

void vhost_fail(struct vhost *h, const char *format, ...)
{
	va_list args;

	if (h->violations++ > 0)
		return;
	va_start(args, format);
	vsnprintf(h->violation, sizeof(h->violation), format, args);
	va_end(args);
	if (h->quiet)
		return;
	fprintf(stderr, "seed %llu, t=%llu ns, step %llu: %s\n", (unsigned long long)h->seed,
		(unsigned long long)h->now, (unsigned long long)h->steps, h->violation);
}
