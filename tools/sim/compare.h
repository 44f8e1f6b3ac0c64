/* SPDX-License-Identifier: MIT */
/*
 * Compares policies and models on workloads whose VFs have roles: what latency-sensitive VFs get,
 * what computing ones get, and what it costs.
 */
#pragma once

#include <stdio.h>

#include "scenario.h"
#include "vgpu/policy.h"

enum compare_figure {
	COMPARE_FRAME_P50 = 0, /* ms from a frame's tick to its end */
	COMPARE_FRAME_P99,
	COMPARE_MISSED, /* % of the ticks */
	COMPARE_TOKEN_P50,
	COMPARE_TOKEN_P99,
	COMPARE_DESKTOP_P99,
	COMPARE_TRAINING, /* % of the GPU's time that training VFs got */
	COMPARE_GAP,	  /* see docs/simulator.md */
	COMPARE_SWITCHES, /* per second */
	COMPARE_LOST,	  /* % of the time that switching took */
	COMPARE_FIGURES,
};

/* One line: a policy, its parameters, and those of the VFs of each role. */
struct compare_line {
	char label[96];
	const struct vgpu_policy_ops *policy;
	struct settings params, roles[ROLE_COUNT];
	/* Over the runs that had VFs of the role. */
	double sum[COMPARE_FIGURES], worst[COMPARE_FIGURES];
	unsigned runs[COMPARE_FIGURES];
	uint64_t evictions;
	uint32_t refused; /* VFs in the run in which the policy refused most; they have no part in
			     the figures */
};

/*
 * Reads a line from text such as "fair slice_us=1000 frames.latency_slice_us=1000". The policy must
 * have every parameter. Returns 0, or -EINVAL with the reason.
 */
int compare_parse(struct compare_line *line, const char *text, struct vgpu_error *err);
/* Writes the lines of all built-in policies; returns how many, at most MAX. */
unsigned compare_builtin(struct compare_line *lines, unsigned max);
/* Writes the lines of all policies and models, and some with parameters; returns how many, at most
 * MAX. */
unsigned compare_all(struct compare_line *lines, unsigned max);
/* Returns whether any VF of S has a role. */
bool compare_has_roles(const struct scenario *s);
/* Copies FROM to TO, under the policy of LINE, with its parameters and those that it has for the
 * VFs' roles. The caller frees TO by scenario_free. */
void compare_set_up(struct scenario *to, const struct scenario *from,
		    const struct compare_line *line);
/* Runs S, whose VFs are on one GPU, under LINE, and adds the results to it. Returns 0, or -errno
 * with the reason. */
int compare_run(struct compare_line *line, const struct scenario *s, struct vgpu_error *err);

/* Returns the mean over the runs; NAN if there was nothing to measure. */
double compare_mean(const struct compare_line *line, enum compare_figure figure);
void compare_table(const struct compare_line *lines, unsigned n, FILE *to);
void compare_json(const struct compare_line *lines, unsigned n, FILE *to);
