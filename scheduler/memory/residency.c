/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "vgpu/residency.h"

/* Swapping takes at most a fifth of the time: q = C (1 - 0.2) / 0.2. */
#define EPOCH_BY_COST 4u

void vgpu_residency_init(struct vgpu_residency *r, uint32_t n_vfs, vgpu_nsec epoch)
{
	uint32_t i;

	memset(r, 0, sizeof(*r));
	r->n_vfs = n_vfs;
	r->epoch = epoch;
	for (i = 0; i < n_vfs; i++)
		r->vfs[i].waits = VGPU_NEVER;
}

/* The least service of all competing VFs except BUT; VGPU_NEVER: no other VF competes. */
static vgpu_nsec least_served(const struct vgpu_residency *r, uint32_t but)
{
	vgpu_nsec least = VGPU_NEVER;
	uint32_t i;

	for (i = 0; i < r->n_vfs; i++)
		if (i != but && r->vfs[i].is.wants && r->vfs[i].served < least)
			least = r->vfs[i].served;
	return least;
}

static vgpu_nsec by_share(vgpu_nsec ns, const uint64_t share[2])
{
	return share[0] ? (vgpu_nsec)((unsigned __int128)ns * share[1] / share[0]) : ns;
}

vgpu_nsec vgpu_residency_epoch(const struct vgpu_residency *r)
{
	return r->epoch > EPOCH_BY_COST * r->cost ? r->epoch : EPOCH_BY_COST * r->cost;
}

void vgpu_residency_observe(struct vgpu_residency *r, uint32_t vf,
			    const struct vgpu_residency_vf *is, vgpu_nsec now)
{
	const struct vgpu_residency_vf was = r->vfs[vf].is;
	bool out = is->wants && !is->here;
	vgpu_nsec *served = &r->vfs[vf].served, least, epoch;

	if (is->run_ns > was.run_ns)
		*served += by_share(is->run_ns - was.run_ns, is->share);
	if (is->wants && !was.wants) {
		/* A VF that slept keeps a credit of at most one epoch, and a debt of at most one:
		 * time on an engine that no other VF needed cost the others nothing. */
		least = least_served(r, vf);
		epoch = by_share(vgpu_residency_epoch(r), is->share);
		if (least != VGPU_NEVER && *served > least + epoch)
			*served = least + epoch;
		else if (least != VGPU_NEVER && least > epoch && *served < least - epoch)
			*served = least - epoch;
	}
	if (is->here != was.here)
		r->vfs[vf].came = now;
	if (is->here != was.here || is->wants != was.wants)
		r->vfs[vf].idle = now;
	if (out && r->vfs[vf].waits == VGPU_NEVER)
		r->vfs[vf].waits = now;
	if (!out && r->vfs[vf].waits != VGPU_NEVER) {
		if (now - r->vfs[vf].waits > r->wait_max)
			r->wait_max = now - r->vfs[vf].waits;
		r->vfs[vf].waits = VGPU_NEVER;
	}
	r->vfs[vf].is = *is;
}

uint32_t vgpu_residency_next(const struct vgpu_residency *r)
{
	uint32_t i, best = VGPU_NO_VF;

	for (i = 0; i < r->n_vfs; i++) {
		const struct vgpu_residency_vf *is = &r->vfs[i].is;

		if (is->here || !(is->wants || is->pinned))
			continue;
		if (best == VGPU_NO_VF || is->pinned > r->vfs[best].is.pinned ||
		    (is->pinned == r->vfs[best].is.pinned &&
		     (r->vfs[i].served < r->vfs[best].served ||
		      (r->vfs[i].served == r->vfs[best].served &&
		       r->vfs[i].waits < r->vfs[best].waits))))
			best = i;
	}
	return best;
}

/* Returns whether A is evicted before B. */
static bool sooner(const struct vgpu_residency *r, uint32_t a, uint32_t b)
{
	if (r->vfs[a].is.wants != r->vfs[b].is.wants)
		return !r->vfs[a].is.wants;
	if (r->vfs[a].is.wants)
		return r->vfs[a].served > r->vfs[b].served;
	return r->vfs[a].idle < r->vfs[b].idle;
}

/* The instant until which a resident VF keeps its place against any other VF. */
static vgpu_nsec kept_until(const struct vgpu_residency *r, uint32_t i)
{
	if (r->vfs[i].is.wants)
		return r->vfs[i].came + vgpu_residency_epoch(r);
	return r->vfs[i].is.empty ? 0 : r->vfs[i].idle + r->cost;
}

/* Returns whether VF I must stay resident although VF wants to come in. */
static bool keeps_place(const struct vgpu_residency *r, uint32_t i, uint32_t vf, vgpu_nsec now)
{
	if (r->vfs[vf].is.pinned)
		return false;
	return now < kept_until(r, i) ||
	       (r->vfs[i].is.wants && r->vfs[i].served <= r->vfs[vf].served);
}

uint32_t vgpu_residency_candidates(const struct vgpu_residency *r, uint32_t vf, vgpu_nsec now,
				   uint32_t out[VGPU_GPU_MAX_VFS])
{
	uint32_t i, at, n = 0;

	for (i = 0; i < r->n_vfs; i++) {
		if (i == vf || !r->vfs[i].is.here || r->vfs[i].is.fixed ||
		    keeps_place(r, i, vf, now))
			continue;
		for (at = n++; at > 0 && sooner(r, i, out[at - 1]); at--)
			out[at] = out[at - 1];
		out[at] = i;
	}
	return n;
}

vgpu_nsec vgpu_residency_deadline(const struct vgpu_residency *r, vgpu_nsec now)
{
	vgpu_nsec t = VGPU_NEVER;
	uint32_t i;

	if (vgpu_residency_next(r) == VGPU_NO_VF)
		return VGPU_NEVER;
	for (i = 0; i < r->n_vfs; i++) {
		vgpu_nsec ends = kept_until(r, i);

		if (r->vfs[i].is.here && !r->vfs[i].is.fixed && ends > now && ends < t)
			t = ends;
	}
	return t;
}
