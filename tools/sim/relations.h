/* SPDX-License-Identifier: MIT */
/*
 * Metamorphic relations: a scenario is run again with a change that must not matter, and what must
 * stay the same is compared. Relations need no model of the policy, and so find errors that a model
 * would share with the policy.
 */
#pragma once

#include "scenario.h"

/*
 * Tests all relations that apply to POLICY, with the VFs and parameters of S. Returns false, with
 * the broken relation in VIOLATION. Adds the decisions made to DECISIONS.
 */
bool relations_hold(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    uint64_t *decisions, char *violation, size_t size);
