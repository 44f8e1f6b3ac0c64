/* SPDX-License-Identifier: MIT */
/* The promises of the policies on the ring: shares, bounds, and the lag that they carry over a
 * change of policy. */
#pragma once

#include "ring.h"

/* Returns WAITED for ring_place_lag(). A VF that has had no turn since it woke is owed only the
 * time since it woke. */
static int64_t ring_waited(const struct ring *r, uint32_t index)
{
	const struct ring_vf *vf = &r->vfs[index];
	int64_t others = (r->awake_slots - vf->slots) * (int64_t)r->slice;
	int64_t passed = r->done - vf->since;

	if (!vf->awake || others == 0)
		return 0;
	if (r->open && index == r->owner)
		return -512;
	return (passed < others ? passed : others) * 1024 / others - (vf->served ? 512 : 0);
}

static int64_t ring_export_lag(void *state, uint32_t index)
{
	struct ring *r = state;
	const struct ring_vf *vf = &r->vfs[index];
	int64_t lag = -vf->debt, more = 0;

	if (r->takes_over) /* no turn has begun yet */
		return vf->lag;
	if (r->open && index == r->owner)
		more = ring_result(r);
	/* The rest of its turn counts as service; what it had beyond its turn is its debt. */
	lag -= more < 0 ? ring_others_part(r, vf, more) : more;
	return lag + ring_place_lag(r, vf, ring_waited(r, index));
}

/* Imports a VF's lag, ns. The VF that is owed most begins; the others follow in the order of their
 * numbers. */
static void ring_import_lag(void *state, uint32_t index, int64_t lag)
{
	struct ring *r = state;

	r->vfs[index].lag = lag;
	if (r->owner == VGPU_NO_VF && (!r->takes_over || lag > r->vfs[r->first].lag))
		r->first = index;
	r->takes_over = true;
}

static void ring_share(void *state, uint32_t vf, uint64_t *numerator, uint64_t *denominator)
{
	struct ring *r = state;
	int64_t slots = r->vfs[vf].slots;

	*numerator = (uint64_t)slots;
	*denominator = (uint64_t)(r->member_slots + (set_has(&r->members, vf) ? 0 : slots));
}

/* Returns the largest debt of VF so far, or the debt that it would have if its open turn ended now:
 * a turn that its owner has given up is settled only at the next pick. In ns. */
static int64_t ring_at_least(const struct ring *r, uint32_t index, int64_t so_far)
{
	bool open = r->open && index == r->owner;

	return open ? ring_max(so_far, r->vfs[index].debt + ring_result(r)) : so_far;
}

/* Returns how long the slot of VF may take, in ns. With idle=donate another VF may use it and stop
 * late. */
static uint64_t ring_slot_bound(const struct ring *r, const struct ring_vf *vf, int64_t late)
{
	int64_t longest = ring_longest(r, vf);
	int64_t turn = longest + (vf->worst < longest ? vf->worst : longest);
	uint64_t parts = 1 + (uint64_t)turn / r->facts->max_slice_ns;

	if (r->idle != RING_DONATE)
		late = vf->over + vf->late;
	return (uint64_t)(turn + late) + 2 * parts * ring_switch(r);
}

/*
 * While two VFs have work, one is served at most a turn more than the other, plus or minus what
 * their turns were longer or shorter: reach = turn + |debt|. For a turn of VF i the fluid server
 * gives this VF up to share / (share + share i) of it, if only those two have work then; and where
 * many have had turns that the fluid server has not paid for yet, at most half of each. So |lag| <=
 * 2 reach + sum over others of reach i * max(share / (share + share i), 1/2)
 *            + half of the largest reach i
 * Its own reach counts twice: the VF may be owed a turn, get it, and then be ahead by another.
 */
static uint64_t ring_lag_bound(const struct ring *r, uint32_t index)
{
	const struct ring_vf *own = &r->vfs[index];
	int64_t lag = 2 * (ring_longest(r, own) + ring_at_least(r, index, own->worst));
	int64_t most = 0, reach;
	uint32_t i;

	for (i = 0; i < r->facts->max_vfs; i++) {
		const struct ring_vf *vf = &r->vfs[i];

		if (!vf->admitted || i == index)
			continue;
		reach = ring_longest(r, vf) + ring_at_least(r, i, vf->worst);
		most = ring_max(most, reach);
		lag += vf->slots > own->slots ? reach / 2
					      : reach * own->slots / (own->slots + vf->slots);
	}
	return (uint64_t)(lag + most / 2);
}

/* Writes the bounds. A VF waits for one slot of each other VF; for the rest of its own slot if it
 * wakes too late to use it; and for as many rounds as its debt costs. Any configured VF may join
 * meanwhile. */
static void ring_bound(void *state, uint32_t index, struct vgpu_bound *out)
{
	struct ring *r = state;
	const struct ring_vf *own = &r->vfs[index];
	int64_t late = 0, least = own->slots * (int64_t)r->shortest_slice;
	int64_t deepest = ring_at_least(r, index, own->deepest);
	uint64_t round = 0;
	uint32_t i;

	for (i = 0; i < r->facts->max_vfs; i++)
		if (r->vfs[i].admitted)
			late = ring_max(late, r->vfs[i].over + r->vfs[i].late);
	for (i = 0; i < r->facts->max_vfs; i++)
		if (r->vfs[i].admitted)
			round += ring_slot_bound(r, &r->vfs[i], late);
	out->max_lag = ring_lag_bound(r, index);
	out->max_wait = round * (1 + (uint64_t)(deepest / (least ? least : 1))) +
			ring_slot_bound(r, own, late);
}

static const char *ring_warning(void *state)
{
	struct ring *r = state;

	return auto_slice_warning(&r->length, r->facts, (uint32_t)r->member_slots);
}

#define RING_FACTOR_PARAM                                                                          \
	{                                                                                          \
		"avg_factor", "turns",                                                             \
			"number of turns over which an overrun is settled; 1: the next turn",      \
			VGPU_PARAM_INT, 1, 60, 1, NULL                                             \
	}

/* The operations that all policies on the ring share. */
#define RING_OPS                                                                                   \
	.size = sizeof(struct vgpu_policy_ops), .abi_major = VGPU_POLICY_ABI_MAJOR,                \
	.abi_minor = VGPU_POLICY_ABI_MINOR, .memory = ring_memory, .remove = ring_remove,          \
	.online = ring_online, .offline = ring_offline, .wake = ring_wake, .sleep = ring_sleep,    \
	.pick = ring_pick, .run = ring_run, .account = ring_account,                               \
	.export_lag = ring_export_lag, .import_lag = ring_import_lag, .share = ring_share,         \
	.bound = ring_bound, .warning = ring_warning, .extend = ring_extend
