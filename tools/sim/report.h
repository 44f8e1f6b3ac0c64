/* SPDX-License-Identifier: MIT */
/* The results of a run: as tables, as JSON, and as a picture. */
#pragma once

#include <stdio.h>

#include "monitor.h"
#include "scenario.h"

struct report_vf {
	uint32_t vf, gpu;
	bool backlogged;
	double share, promised, error; /* parts of the service of the VFs that always have work */
	double run_ms, overrun_ms, max_wait_ms;
	uint64_t turns, jobs, missed; /* ticks at which the job before was not done */
	double p50_ms, p99_ms;	      /* latencies of its jobs */
};

struct report {
	char policy[32];
	uint64_t decisions;
	double seconds;				  /* virtual */
	double worst_error, switch_pct, idle_pct; /* in per cent */
	double fg_p99_ms; /* the worst VF of those that do not always have work; 0: there is none */
	double max_wait_ms;
	struct monitor_result monitor;
	uint64_t violations, evictions, hash;
	uint32_t n_vfs, refused; /* refused: of them, the policy did not admit these */
	struct report_vf *vfs;
};

/* Adds the results of one GPU, after its run. REPORT must be zeroed before the first; report_free
 * frees it. */
void report_add(struct report *report, const struct running *r);
void report_free(struct report *report);

/* Write the report as tables, or as JSON. */
void report_table(const struct report *report, FILE *to);
void report_json(const struct report *report, FILE *to);
/* Write the head of a comparison, and a line for one rule. */
void report_compare_head(FILE *to);
void report_compare_line(const struct report *report, FILE *to);

/* Writes how many VFs the policy refused, at the end of a line; nothing if N is 0. */
void report_refused(uint32_t n, FILE *to);

/* Write the dispatches in h->log, as sentences, and as a timeline. */
void report_log(const struct vhost *h, FILE *to);
int report_svg(const struct vhost *h, const char *path, vgpu_nsec from, vgpu_nsec to,
	       struct vgpu_error *err);
