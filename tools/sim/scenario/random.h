/* SPDX-License-Identifier: MIT */
/* Random numbers from a seed, and random scenarios. */
#pragma once

#include "scenario.h"

struct rng {
	uint64_t state;
};

/* Returns the next random number of R; all 64 bits are random. */
uint64_t random_draw(struct rng *r);
/* Returns a uniform random number from MIN to MAX, both included. */
uint64_t random_between(struct rng *r, uint64_t min, uint64_t max);
/* Returns a random number from MIN (above 0) to MAX, with all orders of magnitude equally likely.
 */
uint64_t random_magnitude(struct rng *r, uint64_t min, uint64_t max);
bool random_one_in(struct rng *r, uint64_t n);

/* Sets NAME to a number in S. */
void random_set_number(struct settings *s, const char *name, int64_t value);

/* Draws a value of P into OUT: mostly near what people would set, sometimes anywhere in its range,
 * or at the ends. */
void random_setting(struct rng *r, const struct vgpu_param *p, struct settings *out);
/* Draws values of some of the parameters of TABLE into OUT. */
void random_settings(struct rng *r, const struct vgpu_param *table, struct settings *out);

/* Draws what a tenant does within seconds: one of the kinds of random_scenario. */
void random_tenant(struct rng *r, struct scenario_vf *vf);

/*
 * Draws a scenario to test POLICY: tenants that always work, come and go each millisecond, work at
 * each tick, or sleep from microseconds to weeks; world switches that vary or are constant; timers
 * that are late; in a third of the scenarios faults, in half of them changes by operators, in a
 * quarter of those of seconds VMs that come from other hosts. The caller frees it by scenario_free.
 */
void random_scenario(struct rng *r, const struct vgpu_policy_ops *policy, struct scenario *s);
