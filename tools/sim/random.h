/* SPDX-License-Identifier: MIT */
/* Chance, from a seed; and scenarios that are drawn by it. */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include "scenario.h"

struct rng {
	uint64_t state;
};

uint64_t random_draw(struct rng *r);
/* Evenly, MIN and MAX included. */
uint64_t random_between(struct rng *r, uint64_t min, uint64_t max);
/* Each order of magnitude as likely as any other; MIN is above 0. */
uint64_t random_magnitude(struct rng *r, uint64_t min, uint64_t max);
bool random_one_in(struct rng *r, uint64_t n);

/* A setting that is a number. */
void random_set_number(struct settings *s, const char *name, int64_t value);

/*
 * Draws a scenario to try POLICY in: tenants that always work, come and go each millisecond, work
 * at each tick, or sleep from microseconds to weeks; world switches that vary or are the same each
 * time; timers that are late; in a third of them faults, in half of them operators. The caller
 * frees it with scenario_free.
 */
void random_scenario(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s);

#endif
