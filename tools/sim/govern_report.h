/* SPDX-License-Identifier: MIT */
/* What vgpu-sim govern does: compares a governed GPU with static quanta, and draws random epochs.
 */
#pragma once

#include <stdio.h>

#include "compare.h"
#include "govern.h"

/* Runs S with static quanta and with some lengths of epoch, and prints a table, or JSON. Returns
 * the program's exit status. */
int govern_compare(const struct scenario *s, bool json, FILE *to);
/* Does the same under each policy of N LINES, each beside its own static quanta; a policy that no
 * firmware can carry out has a row that says so. */
int govern_compare_policies(const struct scenario *s, const struct compare_line *lines, unsigned n,
			    bool json, FILE *to);
/* Runs random scenarios under POLICY until EPOCHS have passed. A scenario that breaks an invariant
 * is saved in PATH. Returns the program's exit status. */
int govern_prove(const char *policy, uint64_t epochs, uint64_t seed, const char *path, FILE *to);
