/* SPDX-License-Identifier: MIT */
/*
 * The promises to a VF.
 *
 * By the firmware alone, if it gives turns in order and ends each by its time-out (Linux,
 * drivers/gpu/drm/xe/abi/guc_klvs_abi.h), for quanta q, time-outs p, and a world switch W:
 *
 *   wait_i  <= sum over others j of (q_j + p_j) + n W
 *   share_i >= q_i / (q_i + sum over others j of (q_j + p_j) + n W), less one rotation
 *
 * By the loop: when counters are read, a VF's service is its policy's charges plus the carry. The
 * policy keeps its own bound on its charges. The ideal server divides the service of all VFs, the
 * policy divides its charges, and these differ by the sum of all carries. So
 *
 *   |lag_i| <= max_lag_i + off_i + share_i * sum of all off_j
 *
 * with off_j the largest carry of VF j so far, and what was written off of it (measure.c), which is
 * nothing where some plan can make up for how late VFs stop.
 */
#include "private.h"

void promise_parts(const struct vgpu_governor *g, uint64_t *parts)
{
	uint64_t numerator, denominator, sum = 0;
	uint32_t i;

	for (i = 0; i < g->config.max_vfs; i++) {
		numerator = 1;
		denominator = 1;
		if (g->policy)
			g->policy->share(g->memory, i, &numerator, &denominator);
		parts[i] = numerator >= denominator
				   ? WHOLE
				   : (uint64_t)((unsigned __int128)numerator * WHOLE / denominator);
		sum += parts[i];
	}
	for (i = 0; i < g->config.max_vfs; i++)
		parts[i] = (uint64_t)((unsigned __int128)parts[i] * WHOLE / (sum + !sum));
}

vgpu_nsec promise_stop(const struct vgpu_governor *g, uint32_t vf)
{
	/* The first plan overwrites the settings found in force. */
	return g->placed ? max_ns(g->vfs[vf].timeout, g->config.stop) : g->config.stop;
}

vgpu_nsec promise_others(const struct vgpu_governor *g, uint32_t vf)
{
	vgpu_nsec sum = g->config.max_vfs * g->config.switch_ns;
	uint32_t i;

	for (i = 0; i < g->config.max_vfs; i++)
		sum += i == vf ? 0 : promise_stop(g, i);
	return sum;
}

bool promise_is_lost(const struct vgpu_governor *g)
{
	return g->config.timeout.max > 0 && g->config.rotation + promise_others(g, VGPU_NO_VF) >
						    LONGEST_ROTATION * g->config.epoch;
}

static vgpu_nsec lag_bound(const struct vgpu_governor *g, uint32_t vf)
{
	struct vgpu_bound policy = {.max_lag = VGPU_NEVER};
	uint64_t parts[VGPU_GPU_MAX_VFS];
	vgpu_nsec all = 0;
	uint32_t i;

	if (g->mode != VGPU_GOVERNOR_GOVERNED || promise_is_lost(g) ||
	    !(g->policy->promises & VGPU_PROMISE_PROPORTIONAL))
		return VGPU_NEVER;
	g->policy->bound(g->memory, vf, &policy);
	if (policy.max_lag == VGPU_NEVER)
		return VGPU_NEVER;
	promise_parts(g, parts);
	for (i = 0; i < g->config.max_vfs; i++)
		all += g->vfs[i].worst + g->vfs[i].cut;
	return policy.max_lag + g->vfs[vf].worst + g->vfs[vf].cut +
	       (vgpu_nsec)((unsigned __int128)all * parts[vf] >> 32);
}

/*
 * The longest wait that contains PAIRS pairs of plans. In one rotation, each turn is of one plan or
 * of the next, and the longer of both fit into the longest rotation (search.c). Where more plans
 * can follow each other during a wait, there are as many pairs of them.
 */
static vgpu_nsec wait_in(const struct vgpu_governor *g, uint32_t vf, vgpu_nsec pairs)
{
	return pairs * g->config.rotation - g->config.quantum.min + promise_others(g, vf);
}

/* Returns how many pairs of plans a wait may contain; 0: nothing bounds it. */
static vgpu_nsec pairs_in_a_wait(const struct vgpu_governor *g, uint32_t vf)
{
	vgpu_nsec pairs;

	for (pairs = 1; pairs <= 8 && g->config.timeout.max > 0; pairs++)
		if (2 + wait_in(g, vf, pairs) / g->config.epoch <= 2 * pairs)
			return pairs;
	return 0;
}

vgpu_nsec promise_wait(const struct vgpu_governor *g, uint32_t vf)
{
	vgpu_nsec pairs = pairs_in_a_wait(g, vf);

	return pairs ? wait_in(g, vf, pairs) : VGPU_NEVER;
}

vgpu_nsec promise_apart(const struct vgpu_governor *g)
{
	vgpu_nsec apart = 0, pairs;
	uint32_t i;

	for (i = 0; i < g->config.max_vfs; i++) {
		pairs = pairs_in_a_wait(g, i);
		if (pairs)
			apart = max_ns(apart, wait_in(g, i, pairs) / (2 * pairs - 1) + 1);
	}
	return apart;
}

void promise_bound(const struct vgpu_governor *g, uint32_t vf, struct vgpu_governed_bound *out)
{
	vgpu_nsec others = promise_others(g, vf), rotation = 0, own = g->vfs[vf].quantum;
	vgpu_nsec least = g->config.quantum.min;
	uint32_t i;

	for (i = 0; i < g->config.max_vfs; i++)
		rotation += g->vfs[i].quantum;
	*out = (struct vgpu_governed_bound){.max_wait = promise_wait(g, vf),
					    .max_lag = lag_bound(g, vf)};
	if (g->config.timeout.max > 0)
		out->least_ppm = (uint32_t)(own * 1000000 / (rotation + others));
	if (g->mode == VGPU_GOVERNOR_GOVERNED && !(g->policy->promises & VGPU_PROMISE_PROPORTIONAL))
		out->leak_ppm =
			(uint32_t)((g->config.max_vfs - 1) * least * 1000000 / g->config.rotation);
}
