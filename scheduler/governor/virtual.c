/* SPDX-License-Identifier: MIT */
/*
 * The policy divides an epoch in virtual time: it picks, and each pick is accounted at once, until
 * the picks add up to the service of all VFs together. By then it is known which VFs had work. A VF
 * that left turns unused falls asleep when it has got the service that it used, so that the policy
 * gives the rest to others by its own rules. A VF that stands aside is asleep for the policy: it is
 * given its service, up to its ideal, and the policy divides the rest.
 *
 * A turn is charged its length, and an instalment of the VF's carry: at most half a turn less, or a
 * whole one more, so that no policy sees an overrun that is worse than one slice.
 *
 * Virtual time is the time that was charged. It never goes back, and is never behind the clock when
 * an epoch is divided.
 */
#include "private.h"

static void sync_awake(struct vgpu_governor *g, uint32_t index, bool awake)
{
	struct governed *vf = &g->vfs[index];

	if (!vf->admitted || vf->awake == awake)
		return;
	vf->awake = awake;
	if (awake)
		g->policy->wake(g->memory, index, g->virtual);
	else
		g->policy->sleep(g->memory, index, g->virtual);
}

/* Returns the part of the carry of earlier epochs that the turn pays. */
static int64_t instalment(const struct governed *vf, vgpu_nsec turn)
{
	int64_t carry = vf->ledger.carry - (int64_t)vf->served + (int64_t)vf->given;
	int64_t most = (int64_t)turn, least = -(int64_t)(turn / 2);

	if (carry > most)
		return most;
	return carry < least ? least : carry;
}

/* Charges a turn of SLICE, or the VF's remaining service. Returns its length, without the
 * instalment. */
static vgpu_nsec charge(struct vgpu_governor *g, uint32_t index, vgpu_nsec slice)
{
	struct governed *vf = &g->vfs[index];
	bool partial = vf->state == VGPU_GOVERNED_PARTIAL;
	bool runs_dry = partial && vf->given + slice >= vf->served;
	vgpu_nsec turn = runs_dry ? vf->served - vf->given : slice;
	int64_t more = instalment(vf, turn);
	vgpu_nsec used = (vgpu_nsec)((int64_t)turn + more);
	struct vgpu_usage usage = {
		.vf = index,
		.reason = runs_dry ? VGPU_END_YIELD : VGPU_END_SLICE,
		.start = g->virtual,
		.end = g->virtual + used,
		.granted = more < 0 ? used : turn,
		.used = used,
		.overrun = more > 0 ? (vgpu_nsec)more : 0,
		.charge = used,
	};

	vf->given += turn;
	if (g->some_aside) /* the VF stands aside, and does not pay here */
		vf->cut += (vgpu_nsec)(more < 0 ? -more : more);
	vf->ledger.charged += used;
	vf->ledger.carry -= (int64_t)used;
	g->virtual = usage.end;
	g->policy->account(g->memory, &usage);
	if (runs_dry)
		sync_awake(g, index, false);
	return turn;
}

/* Returns whether the contract allows the pick; it allows VGPU_NO_VF. */
static bool is_legal(const struct vgpu_governor *g, const struct vgpu_pick *pick)
{
	if (pick->vf == VGPU_NO_VF)
		return pick->park_until > g->virtual;
	return pick->vf < g->config.max_vfs && g->vfs[pick->vf].awake && pick->slice > 0 &&
	       pick->not_before <= g->virtual + g->facts.max_slice_ns;
}

/* Has the policy give one turn, and subtracts it from *LEFT. Returns false if the policy broke its
 * contract. */
static bool turn(struct vgpu_governor *g, vgpu_nsec *left)
{
	struct vgpu_pick pick = {.vf = VGPU_NO_VF, .park_until = VGPU_NEVER};
	vgpu_nsec slice, had;

	g->policy->pick(g->memory, &pick, g->virtual);
	if (!is_legal(g, &pick))
		return false;
	if (pick.vf == VGPU_NO_VF) {
		had = min_ns(*left, pick.park_until - g->virtual);
		g->virtual += had;
		*left -= had;
		return true;
	}
	g->virtual = max_ns(g->virtual, pick.not_before);
	slice = min_ns(max_ns(pick.slice, g->facts.min_slice_ns), g->facts.max_slice_ns);
	slice = min_ns(slice, *left);
	if (g->policy->run)
		g->policy->run(g->memory, pick.vf, g->virtual);
	*left -= charge(g, pick.vf, slice);
	return true;
}

/* Returns the policy's debt to a VF, less the VF's uncharged service. */
static int64_t owes(const struct vgpu_governor *g, uint32_t index)
{
	return vgpu_lag(g->policy, g->memory, index) - g->vfs[index].ledger.carry;
}

/* Sums of the VFs that compete with work, and of the others that used some time. */
struct sums {
	uint64_t competing; /* parts */
	vgpu_nsec used;	    /* service of the VFs that do not compete */
};

static struct sums sum_up(const struct vgpu_governor *g, const uint64_t *parts)
{
	struct sums sums = {.used = 0};
	uint32_t i;

	for (i = 0; i < g->config.max_vfs; i++) {
		const struct governed *vf = &g->vfs[i];
		bool competes = vf->state == VGPU_GOVERNED_BUSY && !vf->aside;

		sums.competing += competes ? parts[i] : 0;
		sums.used += competes ? 0 : vf->served;
	}
	return sums;
}

/*
 * The ideal of a VF that stands aside is the service that it would get if it had work, and the
 * others aside had none. The competing VFs have had the missing part of it, and no VF is charged
 * for that: if the VF did have work, that part, and the policy's earlier debt to it, is the error
 * of the shares. It pays its own debt. Returns the service given to it.
 */
static vgpu_nsec give_aside(struct vgpu_governor *g, uint32_t index, vgpu_nsec free,
			    const uint64_t *parts, uint64_t competing)
{
	struct governed *vf = &g->vfs[index];
	uint64_t all = competing + parts[index];
	int64_t debt = vf->ledger.carry - (int64_t)vf->served, lag = 0;
	vgpu_nsec ideal, missed;

	if (vf->awake)
		lag = vgpu_lag(g->policy, g->memory, index);
	sync_awake(g, index, false);
	ideal = (vgpu_nsec)((unsigned __int128)free * parts[index] / (all + !all));
	vf->given = min_ns(vf->served + (debt > 0 ? (vgpu_nsec)debt : 0), ideal);
	vf->ledger.charged += vf->given;
	vf->ledger.carry -= (int64_t)vf->given;
	missed = ideal - vf->given;
	vf->cut += missed + (vgpu_nsec)(lag < 0 ? -lag : lag);
	vf->fluid = (int64_t)ideal;
	return vf->given;
}

/* Gives their service to the VFs aside. Those that compete have had the missing part. Returns the
 * service given. */
static vgpu_nsec give_all_aside(struct vgpu_governor *g)
{
	uint64_t parts[VGPU_GPU_MAX_VFS];
	struct sums sums;
	vgpu_nsec given = 0, missed = 0;
	uint32_t i;

	promise_parts(g, parts);
	sums = sum_up(g, parts);
	g->some_aside = false;
	for (i = 0; i < g->config.max_vfs; i++) {
		struct governed *vf = &g->vfs[i];

		if (!vf->aside)
			continue;
		g->some_aside = true;
		given += give_aside(g, i, g->busy - sums.used + vf->served, parts, sums.competing);
		missed += (vgpu_nsec)vf->fluid - vf->given;
	}
	for (i = 0; i < g->config.max_vfs; i++)
		if (!g->vfs[i].aside && g->vfs[i].state == VGPU_GOVERNED_BUSY)
			g->vfs[i].cut += min_ns(missed, g->vfs[i].served);
	return given;
}

/* A VF's service in the epoch by the policy's ideal, and the debt to it at the end. BEFORE: the
 * debt before the epoch. */
static void value(struct vgpu_governor *g, uint32_t index, int64_t before)
{
	struct governed *vf = &g->vfs[index];
	int64_t carry = vf->ledger.carry;

	vf->worst = max_ns(vf->worst, (vgpu_nsec)(carry < 0 ? -carry : carry));
	if (vf->aside) {
		vf->owed = -carry;
		return;
	}
	/* The debt has grown by the policy's ideal, less the actual service. */
	vf->owed = vf->awake ? owes(g, index) : 0;
	vf->fluid = vf->awake ? vf->owed - before + (int64_t)vf->served : 0;
}

bool virtual_run(struct vgpu_governor *g)
{
	vgpu_nsec left;
	bool legal = true;
	int64_t before[VGPU_GPU_MAX_VFS];
	uint32_t i, turns;

	g->virtual = max_ns(g->virtual, g->now);
	left = g->busy - give_all_aside(g);
	for (i = 0; i < g->config.max_vfs; i++) {
		if (g->vfs[i].aside)
			continue;
		sync_awake(g, i, g->vfs[i].state != VGPU_GOVERNED_ASLEEP);
		g->vfs[i].given = 0;
	}
	for (i = 0; i < g->config.max_vfs; i++)
		before[i] = g->vfs[i].awake ? owes(g, i) + (int64_t)g->vfs[i].served : 0;
	for (turns = 0; left > 0 && legal && turns < 4 * TURNS_PER_EPOCH; turns++)
		legal = turn(g, &left);
	for (i = 0; i < g->config.max_vfs; i++)
		value(g, i, before[i]);
	return legal;
}
