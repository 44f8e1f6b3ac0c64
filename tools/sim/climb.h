/* SPDX-License-Identifier: MIT */
/*
 * Small scenarios for hill climbing: random ones seldom come near a bound, so `prove` also begins
 * with a small scenario and changes it, step by step, towards the bound.
 */
#pragma once

#include "random.h"

/*
 * Draws a scenario of 2 to 4 VFs and at most two seconds to test POLICY, without faults and
 * operators. VFs stop late by up to the grace time, now and then or by habit; in two of three they
 * are as unlike as can be. The caller frees it by scenario_free.
 */
void climb_begin(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s);

/* Changes one to three things in a scenario of climb_begin(). */
void climb_step(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s);
