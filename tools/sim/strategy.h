/* SPDX-License-Identifier: MIT */
/*
 * Measures whether a tenant gains by how it behaves, or harms VFs that always have work: compares
 * the run with some in which the VF always has work, too, and stops in time.
 */
#pragma once

#include "random.h"

/*
 * Runs S under POLICY as it is, and with its strategist replaced by an honest VF. Returns the
 * larger of what the strategist gains and of what a VF that always has work loses, as a part of
 * what is allowed; 0 if S has no strategist, the policy does not charge or leaves time unused, no
 * other VF always has work, or S is shorter than 5 s. Above 1, WHY says which VF gains or loses.
 * Adds the decisions of all runs to DECISIONS.
 */
double strategy_pays(const struct scenario *s, const struct vgpu_policy_ops *policy,
		     uint64_t *decisions, char *why, size_t size);

/* Makes VF 0 of S, which climb_begin() has drawn, a strategist, beside VFs that stop in time. */
void strategy_begin(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s);

/* Changes the strategy, or the VFs beside it. */
void strategy_step(struct rng *r, struct scenario *s);
