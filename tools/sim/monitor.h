/* SPDX-License-Identifier: MIT */
/*
 * Holds a policy to its promises while it runs: models of what each VF is due, computed from what
 * happened alone, and the policy's own bounds beside them. Every VF is judged, whatever its tenant
 * does: lag, waits, budgets, limits. Nothing here shares arithmetic with a policy.
 *
 * Instants of wakes, stops and work come from the virtual host's tenants, service from the ledgers.
 */
#ifndef SIM_MONITOR_H
#define SIM_MONITOR_H

#include "vhost.h"

struct monitor;

/* The largest shares of the bounds that were needed so far. */
struct monitor_result {
	/* Over the bounds; 0: none was stated, or nobody could be judged. LAG: from an ideal fluid
	 * server; PAIRS: between two VFs that always have work. */
	double lag, pairs, wait, limit;
	uint64_t deadlines; /* of budgets, that were looked at */
	uint64_t missed;
	vgpu_nsec worst_miss; /* how late what was due at a deadline came */
};

/*
 * A monitor for H, to be put into h->monitor after vhost_start. BUDGETS: nobody stops later than
 * the policy reckons with, so that budgets are judged, too; misses are counted in the result. Any
 * other promise that is broken is a violation of H. Free it after the run.
 */
struct monitor *monitor_new(struct vhost *h, bool budgets);
void monitor_free(struct monitor *m);

/* Called after each step. */
void monitor_step(struct monitor *m, const struct vgpu_event *event);
/* Called before a job of LENGTH ns joins the queue of VF, which has work already. */
void monitor_arrival(struct monitor *m, uint32_t vf, vgpu_nsec length);
/* Another core has taken over: what the first one owed to whom is forgotten. */
void monitor_restarted(struct monitor *m);
/* The run is over: what is still open is judged, and all of it written to OUT. */
void monitor_finish(struct monitor *m, struct monitor_result *out);
/* Adds a run to the result of others: the largest ratios, sums of what is counted. */
void monitor_result_add(struct monitor_result *to, const struct monitor_result *from);

#endif
