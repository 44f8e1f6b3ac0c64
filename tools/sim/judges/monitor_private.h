/* SPDX-License-Identifier: MIT */
/* The interface between the monitor and its judges. */
#pragma once

#include <math.h>

#include "fluid.h"
#include "monitor.h"

struct lag_watch {
	double base;	/* its service when it joined */
	double carried; /* see monitor_carried */
};

struct pair_watch {
	bool judged;	    /* it always has work, and behaves */
	double weight;	    /* 0: not compared */
	double base;	    /* its service at the origin */
	double norm, slack; /* service and allowance over weight, at the last look */
	double carried;	    /* see monitor_carried */
};

struct wait_watch {
	bool on;
	vgpu_nsec since, apart;	  /* apart: time so far that the policy did not control */
	uint64_t n_apart;	  /* windows and resets so far */
	vgpu_nsec bound;	  /* as stated at the beginning, or at the last change */
	vgpu_nsec carried;	  /* the bound before a change; NEVER: no change */
	vgpu_nsec changed_at;	  /* the last change */
	double owes;		  /* see monitor_carried */
	vgpu_nsec old, old_until; /* the bound before the last change; until when it holds */
	vgpu_nsec debt_charged;	  /* of windows and resets, so far; */
	double instalment;	  /* of that, at its last account */
};

struct budget_watch {
	vgpu_nsec budget, period;
	bool had_work;
	double level; /* service beyond the budget's rate: what it may still have to pay back */
	vgpu_nsec level_at;   /* when the level was computed */
	vgpu_nsec idle_since; /* without work since */
	/* It has had work without a break since, and owed nothing then. */
	bool counting;
	vgpu_nsec since, next; /* next: the next deadline */
	double base;
	vgpu_nsec late_from; /* the first deadline that was missed and not yet made up for, */
	double late_due;     /* and the service that was due by then; 0: none */
	/* A job of no more than a budget, and its deadline. */
	bool job, in_order;
	vgpu_nsec length;
	vgpu_nsec came, deadline;
};

struct limit_watch {
	double level; /* fills with service, leaks at the limit's rate */
	uint32_t ppm;
	double carried; /* a burst that was allowed before a change, until the bucket is empty */
};

struct window_watch {
	double owes;		 /* for windows and resets */
	double unsure;		 /* how much more or less, as the core rounds */
	double exclusive, apart; /* its time in windows, and in windows and resets, so far */
	double charged;		 /* of that */
	double stated;		 /* its share, */
	double share, rate;	 /* and as a part of all; of the time for its windows */
	bool came;		 /* its VM came from another host, and had not resumed */
	bool vague;		 /* its share changes, at an instant that the policy chooses */
	bool pays;		 /* has no work, so that its share of the time pays */
	bool in;		 /* its window has begun */
	uint32_t seen;		 /* windows in the wait that goes on */
	vgpu_nsec since;	 /* when it began to wait, */
	double of_all;		 /* and the time of windows of all VFs until then */
	vgpu_nsec asked;	 /* start of its wait for a window, with credit; NEVER */
	uint32_t others;	 /* windows since then */
	double apart_before;	 /* time of windows and resets before */
	bool counts;		 /* its share of the time is judged, */
	vgpu_nsec from;		 /* from then on, */
	double base, lost;	 /* its service and the time that no VF had until then */
};

struct watched {
	struct vgpu_vf_view v;
	struct vgpu_bound before; /* the bound at the last sample */
	double service, last;	  /* charged so far: now, and at the last sample */
	bool ready;		  /* has work and could run */
	struct lag_watch lag;
	struct pair_watch pair;
	struct wait_watch wait;
	struct budget_watch budget;
	struct limit_watch limit;
	struct window_watch window;
};

struct monitor {
	struct vhost *h;
	enum monitor_judges judges;
	struct vgpu_core_view core;
	/* Since LAST nothing has changed, but that RUNNER, if any, had the engine. */
	vgpu_nsec last;
	uint32_t runner;
	uint32_t phase; /* the core's, in which it has been since PHASE_SINCE */
	vgpu_nsec phase_since;
	bool accounted;	      /* in this step a dispatch came to its end, */
	double overrun;	      /* this much beyond its grant */
	bool hung;	      /* because its VF did not stop, and was reset */
	bool changed;	      /* in this step: an operator changed something */
	bool shares_changed;  /* in this step, be it that they were set before it */
	bool replaced;	      /* the policy was changed, by the operator or the core */
	uint32_t window_of;   /* the VF whose window opened in this step; or VGPU_NO_VF */
	uint32_t open_window; /* the VF whose window is open; or VGPU_NO_VF */
	uint32_t has_turn; /* the VF whose turn has begun and is not accounted yet; or VGPU_NO_VF */
	bool states_changed; /* in this step */
	uint32_t covered;    /* VF whose windows and hangs break no budget; or VGPU_NO_VF */
	bool interrupted;    /* a window or a reset took time since the last sample */
	bool restarted;	     /* the next sample is the first one of a core */
	vgpu_nsec windows_and_resets; /* time that went into them, of all VFs */
	uint64_t n_windows_and_resets;
	vgpu_nsec began;	 /* the core */
	vgpu_nsec granted_until; /* the end of the grant that runs; 0: none */
	vgpu_nsec hangs;	 /* time until they were found */
	vgpu_nsec making_room;	 /* time until those that were found running had stopped */
	double early;		 /* service given to the fluid ahead of the sample */
	bool pairs_compared;
	struct monitor_result result;
	struct fluid_vf *fluid;
	struct watched vfs[];
};

/* Returns what VF was charged, ns, between the last sample and instant T, which lies before the
 * present sample. */
static inline double monitor_service_at(const struct monitor *m, uint32_t vf, vgpu_nsec t)
{
	const struct watched *w = &m->vfs[vf];
	double span = t > m->last ? (double)(t - m->last) : 0;
	double had = w->service - w->last;

	if (t >= m->h->now)
		return w->service;
	return w->last + (m->runner == vf ? (had < span ? had : span) : 0);
}

/* Returns the sum of what all VFs are owed, by the policy's own account; lags add up to zero.
 * Beside any part of the others a VF is owed, or owes, at most that. */
static inline double monitor_owed(const struct monitor *m)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++)
		sum += fabs((double)m->vfs[i].v.lag_ns);
	return sum / 2;
}

/* Returns what VFs under a limit owe to their buckets, ns. They owe it to no other VF, and keep it
 * over an operator's change, so that the other VFs are ahead by that much. */
static inline double monitor_buckets(const struct monitor *m)
{
	double sum = 0;
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++)
		if (m->vfs[i].before.limit_ppm && m->vfs[i].v.lag_ns < 0)
			sum -= (double)m->vfs[i].v.lag_ns;
	return sum;
}

/*
 * Returns what VF may be off by after an operator's change in this step, beside the new bound, ns.
 * That is what VF was allowed to be off by before the change: the bound that was in force, and at
 * most as much again of what was carried until then. The largest such value is kept, so that a
 * hundred changes allow no more than two. A policy that promised nothing hands over OWED.
 */
static inline double monitor_carried(const struct monitor *m, uint32_t vf, double owed,
				     double carried)
{
	const struct watched *w = &m->vfs[vf];
	/* A grant that was given is not taken away, whatever is changed. */
	double granted = m->granted_until > m->h->now ? (double)(m->granted_until - m->h->now) : 0;
	double before = (double)w->before.max_lag + m->overrun;

	if (w->before.max_lag == VGPU_NEVER)
		before = owed;
	before += granted + monitor_buckets(m);
	before += carried < before ? carried : before;
	return before > carried ? before : carried;
}

/* Each judges the time since the last sample, and the present state. */
void judge_lag(struct monitor *m);
void lag_arrival(struct monitor *m, uint32_t vf, vgpu_nsec length);
void judge_pairs(struct monitor *m);
void judge_wait(struct monitor *m, uint32_t vf);
void judge_budget(struct monitor *m, uint32_t vf);
void budget_arrival(struct monitor *m, uint32_t vf);
void judge_limit(struct monitor *m, uint32_t vf);
void judge_windows(struct monitor *m);
/* Judge what is still open at the end of the run. */
void wait_finish(struct monitor *m, uint32_t vf);
void budget_finish(struct monitor *m, uint32_t vf);
