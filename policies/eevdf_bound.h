/* SPDX-License-Identifier: MIT */
/*
 * The bounds that EEVDF promises. While VF i waits, another VF j runs only if it is eligible and
 * due no later than i, at d = v + request / weight at the latest, or if i is not yet eligible. A
 * rest shorter than the shortest slice is added to the next request, and so is the rest, of at most
 * kept, of a VF that stopped sooner than it usually does. So a request is at most a slice and the
 * longer of these two rests, for which the sum of a shortest slice and kept is taken. At the end of
 * the wait v_j exceeds d at most by how far j may be ahead,
 *
 *   ahead_j = longest slice + 2 shortest slices + kept_j + its worst overrun + early_j
 *
 * of which one shortest slice is the slack with which j is eligible, and the other one and kept_j
 * are the rest in its request: slack + max(shortest slice, kept_j) is no more than that. Early_j is
 * how far ahead of time a grant of j was prolonged when another VF woke: j was going to be first at
 * the end of its grant, and is not because the other has made V slower. And because the v of all
 * members add up to their weights times V, at the beginning as at the end, the others are served at
 * most
 *
 *   S = debt_i * weights / weight_i + request * others' weights / weight_i + sum of ahead_j
 *
 * meanwhile. VFs that join or leave do not change this, because V never falls then. If a VF brought
 * more debt than ahead_j from another policy, the part beyond ahead_j is added to S: its service
 * cannot be negative. A dispatch counts as at least a shortest slice, so S costs at most S /
 * shortest slice + n switches.
 *
 * The same sum says that V is never further from v_i than ahead_i one way and
 *
 *   behind_i = request + sum of ahead_j * max(weight_i / (weight_i + weight_j), 1/2)
 *
 * the other: the first term if only j has work beside i; the second if many VFs have had turns, and
 * the fluid server still owes each of them a part of what it was ahead. The fluid server knows how
 * short a VF's jobs are, and owes the VF nothing for the time between them. A VF that V owed
 * service may get that first, and then be ahead of the fluid server. And where a third VF sleeps, V
 * shares what j is ahead by between the VFs that remain, while the fluid server, which has finished
 * the third VF's job at another time, still has up to half of it between them:
 *
 *   |lag| <= ahead_i + behind_i + half of the largest ahead_j
 *
 * A VF that runs out of work, and gets some before its turn ends, keeps what it was owed: held is
 * the most that it has kept so far, or may yet keep in this turn. The fluid server had served
 * this credit when the VF ran out of work, so for lag each VF may be ahead by held, too. The bound
 * of the wait does not change, because `held` does not change V.
 */
#pragma once

#include "eevdf.h"

/* Returns the largest credit that the VF has kept so far, or may yet keep in this turn, ns. */
static inline vgpu_nsec eevdf_held(const struct eevdf *e, uint32_t index)
{
	int64_t held = e->vfs[index].held;

	return (vgpu_nsec)(e->claimant == index && e->claim > held ? e->claim : held);
}

/* Writes max_lag and max_wait of VF INDEX to OUT. MORE: how much further ahead each VF may be, by
 * deferred charges and favour, in ns. */
static inline void eevdf_bound(const struct eevdf *e, uint32_t index, vgpu_nsec more,
			       struct vgpu_bound *out)
{
	const struct eevdf_vf *own = &e->vfs[index];
	vgpu_nsec slice = e->longest > e->slice ? e->longest : e->slice, least, own_ahead = 0;
	vgpu_nsec request = slice + e->facts->min_slice_ns + (vgpu_nsec)own->kept;
	uint64_t weights = 0, sum = 0, behind = request, n = 0, most = 0, w = own->t.weight,
		 service, debts = 0, other = 0;
	uint32_t i;

	for (i = 0; i < e->facts->max_vfs; i++) {
		const struct eevdf_vf *vf = &e->vfs[i];
		vgpu_nsec ahead;
		int64_t beyond;

		if (!vf->admitted)
			continue;
		ahead = slice + 2 * e->facts->min_slice_ns + (vgpu_nsec)vf->worst +
			(vgpu_nsec)vf->early + (vgpu_nsec)vf->kept + more;
		n++;
		weights += vf->t.weight;
		sum += ahead;
		most = ahead > most ? ahead : most;
		beyond = -eevdf_lag(e, i) - (int64_t)ahead;
		if (i != index && beyond > 0)
			debts += (uint64_t)beyond;
		if (i == index) {
			own_ahead = ahead;
			continue;
		}
		ahead += eevdf_held(e, i);
		if (ahead > other)
			other = ahead;
		behind += vf->t.weight > w
				  ? ahead / 2
				  : vtime_divide((__int128)ahead * (__int128)w, w + vf->t.weight);
	}
	service = (uint64_t)(((unsigned __int128)(uint64_t)own->owed * weights +
			      (unsigned __int128)request * (weights - w)) /
			     w) +
		  sum - own_ahead + most + debts;
	out->max_lag = own_ahead + eevdf_held(e, index) + behind + other / 2;
	least = e->facts->min_slice_ns < e->facts->min_run_ns || !e->facts->min_run_ns
			? e->facts->min_slice_ns
			: e->facts->min_run_ns;
	service = (uint64_t)((unsigned __int128)service * e->unpaid / 1024);
	out->max_wait = service + (service / least + n + 1) * e->facts->switch_high_ns;
}
