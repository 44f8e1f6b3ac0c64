/* SPDX-License-Identifier: MIT */
/*
 * Tries to break a policy: random scenarios under all invariants, until so many decisions have been
 * made. One that fails is shrunk to the smallest that still does.
 */
#ifndef SIM_PROVE_H
#define SIM_PROVE_H

#include "monitor.h"
#include "scenario.h"

/* What scenarios under all invariants came to. */
struct proof {
	uint64_t decisions, scenarios, refused; /* refused: VFs that the policy did not admit */
	struct monitor_result result;
	bool failed;
	char violation[320];
	struct scenario smallest; /* if it failed; scenario_free it */
};

/* Called now and then; DONE of 1. */
typedef void prove_progress(double done);

void prove(const struct vgpu_policy_ops *policy, uint64_t decisions, uint64_t seed,
	   prove_progress *progress, struct proof *out);

/*
 * Runs S under all invariants, for no more than MOST_STEPS steps of the core (0: to its end). OUT,
 * zeroed or of scenarios before, gets its figures added, and the reason if it breaks an invariant;
 * then false.
 */
bool prove_scenario(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    uint64_t most_steps, struct proof *out);

#endif
