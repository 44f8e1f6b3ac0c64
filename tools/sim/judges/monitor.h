/* SPDX-License-Identifier: MIT */
/*
 * Checks a policy's promises while it runs: compares models of what each VF is due, computed only
 * from what happened, with the policy's own bounds. Every VF is judged, whatever its tenant does:
 * lag, waits, budgets, limits. The monitor shares no arithmetic with the policies.
 *
 * Instants of wakes, stops and work come from the virtual host's tenants; service comes from the
 * ledgers.
 */
#pragma once

#include "vhost.h"

struct monitor;

/* The largest shares of the bounds that were needed so far. */
struct monitor_result {
	/* As parts of the bounds; 0: no bound was stated, or no VF could be judged. LAG: from an
	 * ideal fluid server; PAIRS: between two VFs that always have work. */
	double lag, pairs, wait, limit;
	double strategy;    /* a VF's gain by a strategy, or its cost to others: strategy.h */
	uint64_t deadlines; /* deadlines of budgets that were judged */
	uint64_t missed;
	vgpu_nsec worst_miss; /* lateness of the latest budget */
};

/* Budgets are judged only if no VF stops later than the policy assumes. */
enum monitor_judges { MONITOR_BUDGETS = 1, MONITOR_OTHERS = 2, MONITOR_ALL = 3 };

/*
 * Makes a monitor for H, to be put into h->monitor after vhost_start, with these JUDGES. Missed
 * budgets are counted in the result; any other broken promise is a violation of H. The caller frees
 * the monitor after the run.
 */
struct monitor *monitor_new(struct vhost *h, enum monitor_judges judges);
void monitor_free(struct monitor *m);
/* States that the policy allows for one window or hang of VF: budgets of the other VFs are judged
 * across it. */
void monitor_covers(struct monitor *m, uint32_t vf);

/* Judges a step of the core by EVENT. Must be called after each step. */
void monitor_step(struct monitor *m, const struct vgpu_event *event);
/* Must be called before a job of LENGTH ns joins the queue of VF, which has work already. */
void monitor_arrival(struct monitor *m, uint32_t vf, vgpu_nsec length);
/* Must be called when another core has taken over: what the first one owed to VFs is forgotten. */
void monitor_restarted(struct monitor *m);
/* Judges what is still open at the end of the run, and writes the result to OUT. */
void monitor_finish(struct monitor *m, struct monitor_result *out);
/* Adds a run to the results of others: keeps the largest ratios, sums the counts. */
void monitor_result_add(struct monitor_result *to, const struct monitor_result *from);
