/* SPDX-License-Identifier: MIT */
/*
 * Holds a policy to its promises while it runs: an independent model of what each VF is due, and
 * the policy's own bounds beside it. Only VFs whose tenants always have work and never misbehave
 * are judged; all others are there to make it hard.
 */
#ifndef SIM_MONITOR_H
#define SIM_MONITOR_H

#include "vhost.h"

struct monitor;

/* The largest shares of the bounds that were needed so far. */
struct monitor_result {
	double lag, wait;   /* over the bounds; 0: none was stated, or nobody could be judged */
	uint64_t deadlines; /* of budgets, that were looked at */
	uint64_t missed;
	vgpu_nsec worst_miss; /* how much of a budget was missing */
};

/*
 * A monitor for H, to be put into h->monitor after vhost_start. CALM: nobody misbehaves, so that
 * waits and budgets are judged, too. A promise that is broken is a violation of H. Free it after
 * the run.
 */
struct monitor *monitor_new(struct vhost *h, bool calm);
void monitor_free(struct monitor *m);

/* Called after each step. */
void monitor_step(struct monitor *m, const struct vgpu_event *event);
/* Another core has taken over: what the first one owed to whom is forgotten. */
void monitor_restarted(struct monitor *m);
/* The next instant at which it wants to look. */
vgpu_nsec monitor_next(const struct monitor *m);
void monitor_result(const struct monitor *m, struct monitor_result *out);

#endif
