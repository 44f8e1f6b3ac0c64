/* SPDX-License-Identifier: MIT */
/*
 * Metamorphic relations: a scenario is run again with a change that must not matter, and what must
 * be the same is compared. They need no model of the policy, and so find what a model shares with
 * it.
 */
#ifndef SIM_RELATIONS_H
#define SIM_RELATIONS_H

#include "scenario.h"

/*
 * Holds POLICY to all relations that apply to it, with the VFs and parameters of S. False, and
 * which one is broken how. DECISIONS grows by those that were made.
 */
bool relations_hold(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    uint64_t *decisions, char *violation, size_t size);

#endif
