/* SPDX-License-Identifier: MIT */
/* softgpu's status page: what look_at_engine() needs, without a trip to the device. */
#include <errno.h>
#include <stdatomic.h>

#include "gpuiov.h"

#define TRIES 100 /* the device writes eight words at a time */

bool gpuiov_read_page(const struct vgpu_driver *d, uint32_t words[SOFTGPU_STATUS_WORDS])
{
	uint32_t i, tries, before;

	for (tries = 0; d->page && tries < TRIES; tries++) {
		before = atomic_load_explicit(&d->page[0], memory_order_acquire);
		for (i = 1; i < SOFTGPU_STATUS_WORDS; i++)
			words[i] = atomic_load_explicit(&d->page[i], memory_order_acquire);
		words[0] = atomic_load_explicit(&d->page[0], memory_order_relaxed);
		if (words[0] == before && before % 2 == 0)
			return true;
	}
	return false;
}

int gpuiov_map_page(struct vgpu_driver *d, uint32_t features)
{
	uint32_t words[SOFTGPU_STATUS_WORDS], id;
	void *page;
	size_t size;
	int r;

	if (!(features & SOFTGPU_SHOWS))
		return 0;
	r = vfio_map(d->device, VFIO_REGION_BAR2, &page, &size);
	if (r < 0 || size < sizeof(words))
		return r == -ENOTSUP ? 0 : r;
	/* The answer to a read follows all commands that were written before it. */
	r = gpuiov_read_own(d, SOFTGPU_ID, &id);
	d->page = page;
	if (r == 0 && gpuiov_read_page(d, words))
		d->taken = words[SOFTGPU_SHOWS_TAKEN];
	else
		d->page = NULL;
	return r;
}
