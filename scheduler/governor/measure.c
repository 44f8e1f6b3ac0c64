/* SPDX-License-Identifier: MIT */
/*
 * Derives service, sleep and lateness from the counters of an epoch.
 *
 * Firmware does not report whether a VF had work. A VF without service for the longest possible
 * wait is asleep. A VF that used less than its quantum in each turn either had no more work, or is
 * one of few VFs that stop in time. The time-outs distinguish the two: no turn of VF j is longer
 * than q_j + p_j, so there were at least A_j / (q_j + p_j) turns, less some at both ends, and a VF
 * that was served less than that many of its quanta has left turns unused. Service under the
 * previous plan, which may be in force for most of the epoch because programming takes time, does
 * not count as a turn. It is owed nothing for them, and if it has left all of them unused, it is
 * asleep. All others get the benefit of the doubt.
 *
 * The lateness x of the others follows from the ratios of their services, (q_i + x_i) / (q_j +
 * x_j), if half of them stop in time.
 */
#include "private.h"

/* Turns of its plan that a VF may have less than another one: both ends of the epoch cut a turn,
 * and one turn may have begun before the plan was in force. */
#define SPARE_TURNS 3u

/* A reading is not usable if a counter went back (the device was reset), if the VFs were served for
 * longer than time has passed, by an eighth, or if it comes so late that the policy would have to
 * divide more than three epochs at once. */
static bool is_usable(const struct vgpu_governor *g, const vgpu_nsec *active, vgpu_nsec passed)
{
	vgpu_nsec sum = 0, most = passed + passed / 8, served;
	uint32_t i;

	if (passed > 3 * g->config.epoch)
		return false;
	for (i = 0; i < g->config.max_vfs; i++) {
		served = active[i] - g->vfs[i].counter;
		if (served > most) /* or negative */
			return false;
		sum += served;
	}
	return sum <= most;
}

/* The number of turns of the plan in force that some VF had at least. Until that plan came into
 * force, and in the turn then in progress, it may have had turns of the previous plan. */
static uint64_t least_turns(const struct vgpu_governor *g)
{
	vgpu_nsec old = g->placed_at > g->epoch_began ? g->placed_at - g->epoch_began : 0, first;
	uint64_t most = 0, turns;
	uint32_t i;

	if (g->config.timeout.max == 0 || g->in_part)
		return 0;
	for (i = 0; i < g->config.max_vfs; i++) {
		const struct governed *vf = &g->vfs[i];

		first = min_ns(vf->served, old + vf->before + vf->timeout);
		turns = (vf->served - first) / (vf->quantum + vf->timeout);
		most = turns > most ? turns : most;
	}
	return most;
}

/*
 * A VF with work waits for one turn of each other VF, under whichever plan that begins. So the
 * longest quanta since it was served bound its wait: those of the epoch in which it was, and by
 * how much each plan since then has lengthened them.
 */
static void count_rounds(struct vgpu_governor *g)
{
	vgpu_nsec all = 0, longer = 0, own;
	uint32_t i;

	for (i = 0; i < g->config.max_vfs; i++) {
		all += max_ns(g->vfs[i].longest, g->vfs[i].before);
		longer += g->vfs[i].longest - min_ns(g->vfs[i].longest, g->vfs[i].before);
	}
	for (i = 0; i < g->config.max_vfs; i++) {
		struct governed *vf = &g->vfs[i];

		own = vf->longest - min_ns(vf->longest, vf->before);
		vf->round = vf->unserved ? vf->round + longer - own
					 : all - max_ns(vf->longest, vf->before);
	}
}

/* A VF with work may have no turn in an epoch that is shorter than the longest wait. Where no wait
 * is bounded, because there are no time-outs, two epochs tell. */
static bool is_asleep(const struct vgpu_governor *g, uint32_t index)
{
	const struct governed *vf = &g->vfs[index];
	vgpu_nsec wait = 2 * g->config.epoch;

	if (vf->unserved == 0)
		return false;
	if (g->config.timeout.max > 0)
		wait = vf->round + promise_others(g, index);
	return vf->state != VGPU_GOVERNED_BUSY || vf->unserved >= wait;
}

static enum vgpu_governed_state state_of(const struct vgpu_governor *g, uint32_t index,
					 uint64_t turns)
{
	const struct governed *vf = &g->vfs[index];
	uint64_t full = turns > SPARE_TURNS ? turns - SPARE_TURNS : 0;

	if (is_asleep(g, index))
		return VGPU_GOVERNED_ASLEEP;
	if (vf->served < vf->quantum * full)
		return vf->served ? VGPU_GOVERNED_PARTIAL : VGPU_GOVERNED_ASLEEP;
	return VGPU_GOVERNED_BUSY;
}

/*
 * Writes off excess carry. A VF that did not use its turns is owed nothing for them. Otherwise a VF
 * is owed at most two epochs of its ideal service: a VF that seems to be owed more, although plans
 * have made up for it, has less work than it seems. And it owes at most an epoch: more gathers only
 * where no plan can make up for how late VFs stop, and would be paid for long after that has ended.
 * The write-off is added to the bound. Returns whether a VF seemed to be owed too much.
 */
static bool lapse(const struct vgpu_governor *g, struct governed *vf)
{
	int64_t before = vf->ledger.carry - (int64_t)vf->served, kept = before;
	int64_t most = (int64_t)g->config.epoch, least = vf->fluid > 0 ? -2 * vf->fluid : 0;

	if (vf->state != VGPU_GOVERNED_BUSY)
		least = 0;
	kept = kept < least ? least : kept > most ? most : kept;
	vf->ledger.lapsed += before - kept;
	vf->ledger.carry -= before - kept;
	if (vf->state == VGPU_GOVERNED_BUSY)
		vf->cut += (vgpu_nsec)(before > kept ? before - kept : kept - before);
	return kept > before && vf->fluid > 0;
}

/*
 * A VF that has left turns unused is in doubt until it has used half of its ideal of an epoch. A VF
 * with work is served that, unless the others stop so late that they take more than half of the
 * time from it. So is one that seems to be owed too much, and has used less than three quarters of
 * its ideal. The VFs in doubt stand aside if some VFs are not in doubt, and if the policy's shares
 * alone determine the dues of a VF that it does not serve. Their lateness is unknown: too high an
 * estimate would keep their quanta short, and them in doubt.
 */
static void doubt(struct vgpu_governor *g)
{
	bool sure = false, cut;
	uint32_t i;

	for (i = 0; i < g->config.max_vfs; i++) {
		struct governed *vf = &g->vfs[i];

		cut = lapse(g, vf);
		if (vf->state != VGPU_GOVERNED_BUSY)
			vf->doubted = true;
		else if (vf->fluid > 0 && (int64_t)vf->served >= vf->fluid / 2)
			vf->doubted = cut && (int64_t)vf->served < vf->fluid / 4 * 3;
		else
			vf->doubted |= cut;
		sure |= !vf->doubted;
	}
	sure = sure && g->policy && g->policy->promises & VGPU_PROMISE_PROPORTIONAL &&
	       !(g->policy->promises & VGPU_PROMISE_GUARANTEE);
	for (i = 0; i < g->config.max_vfs; i++) {
		struct governed *vf = &g->vfs[i];

		vf->aside = sure && vf->doubted && vf->state == VGPU_GOVERNED_BUSY;
		if (vf->aside)
			vf->late = 0, vf->lessons = 0;
	}
}

/* Returns whether a VF's turns show how late VFs stop. */
static bool teaches(const struct governed *vf)
{
	return vf->state == VGPU_GOVERNED_BUSY && !vf->aside;
}

/* Returns the lower median of N numbers, which it sorts. */
static uint64_t lower_median(uint64_t *numbers, uint32_t n)
{
	uint64_t number;
	uint32_t i, k;

	for (i = 1; i < n; i++) {
		number = numbers[i];
		for (k = i; k > 0 && numbers[k - 1] > number; k--)
			numbers[k] = numbers[k - 1];
		numbers[k] = number;
	}
	return numbers[(n - 1) / 2];
}

/*
 * Estimates how late VFs stop. The ratios of their turns to their quanta are known up to a factor,
 * chosen so that half of the VFs stop in time. If the one with the shortest turns were taken for
 * the measure, a VF that leaves a part of each turn unused would make all others look late, and
 * plans that make room for that would swing. If more than half of the VFs are late, the estimates
 * are too low, and shares take more epochs to become right.
 */
static void learn_lateness(struct vgpu_governor *g)
{
	uint64_t served = 0, turns = 0, ratios[VGPU_GPU_MAX_VFS], one;
	uint32_t n = 0, i;

	for (i = 0; i < g->config.max_vfs; i++) {
		if (!teaches(&g->vfs[i]))
			continue;
		served += g->vfs[i].served;
		turns += g->vfs[i].quantum + g->vfs[i].late;
	}
	if (served == 0)
		return;
	for (i = 0; i < g->config.max_vfs; i++) {
		struct governed *vf = &g->vfs[i];
		int64_t turn, now = (int64_t)(vf->quantum + vf->late);

		if (!teaches(vf))
			continue;
		turn = (int64_t)((unsigned __int128)vf->served * turns / served);
		vf->lessons += vf->lessons < LATE_GAIN;
		vf->late = (vgpu_nsec)(now + (turn - now) / vf->lessons); /* includes the quantum */
		ratios[n++] = (vf->late << 20) / vf->quantum + 1;
	}
	one = lower_median(ratios, n);
	for (i = 0; i < g->config.max_vfs; i++) {
		struct governed *vf = &g->vfs[i];
		vgpu_nsec most = g->config.timeout.max ? vf->timeout : g->config.rotation, turn;

		if (!teaches(vf))
			continue;
		turn = (vgpu_nsec)((unsigned __int128)vf->late * (UINT64_C(1) << 20) / one);
		vf->late = turn > vf->quantum ? min_ns(turn - vf->quantum, most) : 0;
	}
}

/*
 * Estimates by how much rotations are longer than the sum of quanta and lateness: lateness is known
 * only up to a factor, and the time of a switch is unknown. In an epoch each VF has whole turns,
 * except the one whose turn the reading cuts. So a VF's service is a multiple of its turn, and the
 * median lengthening of all turns is the common one. A reading at the end of whole rotations cuts
 * no turn.
 */
static void learn_stretch(struct vgpu_governor *g)
{
	uint64_t ratios[VGPU_GPU_MAX_VFS], turns, now;
	uint32_t n = 0, i;

	for (i = 0; i < g->config.max_vfs; i++) {
		const struct governed *vf = &g->vfs[i];
		vgpu_nsec turn = vf->quantum + vf->late;

		if (!teaches(vf))
			continue;
		if (vf->before != vf->quantum)
			return; /* the epoch has turns of two plans */
		turns = (vf->served + turn / 2) / turn;
		if (turns > 0)
			ratios[n++] = vf->served * (NO_STRETCH >> 4) / (turns * turn) << 4;
	}
	if (n < 3)
		return; /* the cut turn would weigh too much */
	now = lower_median(ratios, n);
	if (now < NO_STRETCH - MOST_STRETCH || now > NO_STRETCH + MOST_STRETCH)
		return;
	g->stretch = g->stretch - g->stretch / 4 + now / 4;
}

bool measure_close(struct vgpu_governor *g, const vgpu_nsec *active)
{
	vgpu_nsec passed = g->now - g->epoch_began;
	bool usable = active && is_usable(g, active, passed);
	uint64_t turns;
	uint32_t i;

	g->busy = 0;
	for (i = 0; i < g->config.max_vfs; i++) {
		struct governed *vf = &g->vfs[i];

		vf->aside = false;
		vf->served = usable ? active[i] - vf->counter : 0;
		vf->counter = active ? active[i] : vf->counter;
		vf->unserved = vf->served || !usable ? 0 : vf->unserved + passed;
		vf->ledger.served += vf->served;
		vf->ledger.carry += (int64_t)vf->served;
		g->busy += vf->served;
	}
	g->n_still = g->busy ? 0 : g->n_still + 1;
	g->wall += max_ns(passed,
			  g->busy); /* clocks differ: use the VFs' total service if it is more */
	if (!usable) {
		g->unread += passed;
		return false;
	}
	g->idle += max_ns(passed, g->busy) - g->busy;
	count_rounds(g);
	turns = least_turns(g);
	for (i = 0; i < g->config.max_vfs; i++)
		g->vfs[i].state = state_of(g, i, turns);
	doubt(g);
	if (may_cut_turns(g))
		learn_stretch(g);
	learn_lateness(g);
	for (i = 0; i < g->config.max_vfs; i++) {
		g->vfs[i].longest = g->in_part ? g->vfs[i].longest : g->vfs[i].quantum;
		g->vfs[i].before = g->vfs[i].longest;
	}
	return true;
}
