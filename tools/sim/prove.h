/* SPDX-License-Identifier: MIT */
/*
 * Tries to break a policy: runs random scenarios under all invariants until so many decisions were
 * made. A scenario that fails is shrunk to the smallest that still fails.
 */
#pragma once

#include "monitor.h"
#include "scenario.h"

/* The results of scenarios under all invariants. */
struct proof {
	uint64_t decisions, scenarios, refused; /* refused: VFs that the policy did not admit */
	struct monitor_result result;
	bool failed;
	char violation[320];
	struct scenario smallest; /* if it failed; the caller frees it by scenario_free */
};

/* Returns what may be judged of S: budgets only under the full test of admission, and if no VF
 * misbehaves or stops later than the policy was told (late_us). */
enum monitor_judges prove_judges(const struct scenario *s);

/* Called repeatedly with the part that is DONE, from 0 to 1. */
typedef void prove_progress(double done);

/* Runs random scenarios of SEED under POLICY until it has made DECISIONS decisions, or a scenario
 * fails. Writes OUT. PROGRESS may be NULL. */
void prove(const struct vgpu_policy_ops *policy, uint64_t decisions, uint64_t seed,
	   prove_progress *progress, struct proof *out);

/*
 * Runs S under all invariants, for at most MOST_STEPS steps of the core (0: to its end). Adds its
 * figures to OUT, which is zeroed or of earlier scenarios. Returns false, with the reason in OUT,
 * if an invariant is broken.
 */
bool prove_scenario(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    uint64_t most_steps, struct proof *out);
