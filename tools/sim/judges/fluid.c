/* SPDX-License-Identifier: MIT */
#include "fluid.h"

static bool has_work(const struct fluid_vf *vf)
{
	return vf->in && (vf->endless || vf->had < vf->known);
}

/* Returns the sum of the weights of the VFs that have work, or of all that take part. */
static double weights(const struct fluid_vf *vfs, uint32_t n, bool with_work)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (with_work ? has_work(&vfs[i]) : vfs[i].in)
			sum += vfs[i].weight;
	return sum;
}

static void take_back(struct fluid_vf *vfs, uint32_t n, double amount)
{
	double sum = weights(vfs, n, true);
	bool with_work = sum > 0;
	uint32_t i;

	if (!with_work)
		sum = weights(vfs, n, false);
	for (i = 0; i < n; i++)
		if (with_work ? has_work(&vfs[i]) : vfs[i].in)
			vfs[i].had -= amount * vfs[i].weight / sum;
}

double fluid_serve(struct fluid_vf *vfs, uint32_t n, double capacity)
{
	uint32_t i;

	if (capacity < 0) {
		take_back(vfs, n, -capacity);
		return 0;
	}
	while (capacity > 0) {
		double sum = weights(vfs, n, true), rate, left = capacity;
		bool somebody_is_done = false;

		if (sum <= 0)
			return capacity;
		rate = capacity / sum;
		/* Serve first the VFs that need less than their share; then share the rest anew. */
		for (i = 0; i < n; i++) {
			struct fluid_vf *vf = &vfs[i];

			if (!has_work(vf) || vf->endless || vf->known - vf->had > rate * vf->weight)
				continue;
			left -= vf->known - vf->had;
			vf->had = vf->known;
			somebody_is_done = true;
		}
		if (!somebody_is_done) {
			for (i = 0; i < n; i++)
				if (has_work(&vfs[i]))
					vfs[i].had += rate * vfs[i].weight;
			return 0;
		}
		capacity = left;
	}
	return 0;
}

void fluid_truncate(struct fluid_vf *vfs, uint32_t n, uint32_t vf, double known)
{
	double beyond = vfs[vf].had - known;

	vfs[vf].endless = false;
	vfs[vf].known = known;
	if (beyond <= 0)
		return;
	vfs[vf].had = known;
	fluid_serve(vfs, n, beyond);
}

void fluid_leave(struct fluid_vf *vfs, uint32_t n, uint32_t vf, double real)
{
	double beyond = vfs[vf].had - real;

	vfs[vf].in = false;
	fluid_serve(vfs, n, beyond);
}
