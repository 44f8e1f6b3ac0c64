/* SPDX-License-Identifier: MIT */
/*
 * Tries to break a policy: random scenarios under all invariants, until so many decisions have been
 * made. One that fails is shrunk to the smallest that still does.
 */
#ifndef SIM_PROVE_H
#define SIM_PROVE_H

#include "monitor.h"
#include "scenario.h"

struct proof {
	uint64_t decisions, scenarios, refused; /* refused: VFs that the policy did not admit */
	struct monitor_result result;
	bool failed;
	char violation[256];
	struct scenario smallest; /* if it failed; scenario_free it */
};

/* Called now and then; DONE of 1. */
typedef void prove_progress(double done);

void prove(const struct vgpu_policy_ops *policy, uint64_t decisions, uint64_t seed,
	   prove_progress *progress, struct proof *out);

/*
 * Sets of budgets, drawn at random, against `deadline` or `qos`: how many are admitted, how many of
 * those miss, and how many of those that were refused would have been kept.
 */
struct admission_study {
	uint64_t sets, admitted, missed, kept_but_refused;
	uint64_t deadlines;
	vgpu_nsec worst_miss;
};

/* MODE: the policy's parameter `admission`; NULL: full, and refused sets are tried all the same. */
void prove_admission(const struct vgpu_policy_ops *policy, uint64_t sets, uint64_t seed,
		     vgpu_nsec switch_ns, vgpu_nsec min_slice, vgpu_nsec late, const char *mode,
		     prove_progress *progress, struct admission_study *out);

/* Runs a scenario under all invariants; false and the reason if it breaks one. */
bool prove_scenario(const struct scenario *s, const struct vgpu_policy_ops *policy,
		    struct monitor_result *result, uint64_t *decisions, uint64_t *refused,
		    char *violation, size_t size);

#endif
