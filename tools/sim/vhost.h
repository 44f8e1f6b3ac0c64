/* SPDX-License-Identifier: MIT */
/*
 * A GPU and its tenants in virtual time, around the real core and the real policies. It moves to
 * the next instant at which anything can happen, fires one event (ties: the device's answers, then
 * tenants, then the timer), carries out the actions, and checks the invariants after every step.
 */
#ifndef SIM_VHOST_H
#define SIM_VHOST_H

#include "heap.h"
#include "vgpu/core.h"

/* A value drawn anew each time: uniform in [min, max]. */
struct vhost_range {
	vgpu_nsec min, max;
};

enum vhost_work {
	VHOST_ALWAYS = 0, /* never out of work */
	VHOST_BURSTS,	  /* works for `burst`, then thinks for `think` */
	VHOST_NEVER,
	VHOST_SLEEPER, /* has always work, but hides that just before its slice ends */
	VHOST_SCRIPT,  /* does what `items` say */
	/* A job of `burst` at each tick; ticks are `period` apart, the first one at a phase drawn
	 * from the seed. A tick that finds the job before it undone is missed: it brings none. */
	VHOST_PERIODIC,
};

/* One line of a workload. */
enum vhost_item_kind {
	VHOST_ARRIVE = 0, /* its driver comes up */
	VHOST_WORK,	  /* a job of `value` ns */
	VHOST_THINK,	  /* what follows waits until it is out of work, and `value` ns longer */
	VHOST_DEPART,	  /* its driver goes down */
	VHOST_PARAM,	  /* `params` */
	VHOST_EXCL,	  /* its driver restarts; each window takes `value` ns */
	VHOST_HANG,	  /* it does not stop the next time */
	VHOST_MEM,	  /* wants `value` bytes: for placement only */
	VHOST_PREP,	  /* a job of `value` ns whose latency is not kept: before what matters */
};

struct vhost_item {
	vgpu_nsec t;
	enum vhost_item_kind kind;
	uint64_t value;
	const int64_t *params;
	const struct vgpu_param *table; /* that they were parsed with */
};

struct vhost_job {
	vgpu_nsec arrived, left;
	bool prep; /* its latency is not kept */
};

struct vhost_vf {
	enum vhost_work work;
	struct vhost_range burst, think;
	struct vhost_range period; /* VHOST_PERIODIC: above 0 */
	struct vhost_range late;   /* IDLE asked for to acknowledged */
	struct vhost_range save;
	unsigned hang_ppm;   /* of its preemptions */
	unsigned reset_ppm;  /* of its dispatches: its owner dies in mid-slice */
	unsigned window_ppm; /* of its dispatches: its driver stops, and starts again */

	struct vhost_range rare; /* instead of `late`, now and then */
	unsigned rare_ppm;
	const struct vhost_item *items;
	size_t n_items;
	bool stays_down; /* until its script says otherwise */

	/* state */
	vgpu_nsec next_change;
	vgpu_nsec tick;	 /* the next one; 0: its phase is still to be drawn */
	uint64_t missed; /* ticks */
	bool busy, up, wants_init;
	bool dirty; /* its memory may hold what a former owner left there */
	bool hangs_next;
	vgpu_nsec own_window; /* length of its next windows; 0: the host's range */
	size_t item;
	struct vhost_job *jobs; /* a ring of jobs_size, a power of two */
	uint32_t jobs_head, jobs_tail, jobs_size;
	vgpu_nsec queued; /* what is left of all jobs */
	uint64_t dispatches;
	vgpu_nsec last_start;
	vgpu_nsec *latencies; /* of jobs, from arrival (a periodic one's: its tick) to done, as long
				 as there is room */
	size_t n_latencies, max_latencies;
	char *refused; /* why the policy did not admit it, or NULL */

	/* its part of the device */
	enum vgpu_context context;
	vgpu_nsec reset_at, scrub_at, release_at;
	uint32_t reset_level, scrubs;
	enum vgpu_window release_kind;
};

/* What is run beside the core of a GPU's memory. */
enum vhost_memory_kind {
	VHOST_MEMORY_NONE = 0, /* clearing takes a time, and that is all */
	VHOST_MEMORY_CLEARS,   /* the reducer of memory clears; nothing changes */
	VHOST_MEMORY_CHANGES,  /* partitions change and move, too */
	VHOST_MEMORY_FORCED,   /* by force as well; for every third seed VFs are swapped */
};

struct vhost_memory;

struct vhost_dispatch {
	uint32_t vf;
	vgpu_nsec start, end, granted;
};

struct vhost {
	struct vgpu_core *core;
	struct vgpu_core_config config;
	vgpu_nsec now;
	uint64_t seed, rng;
	uint32_t n_vfs;
	struct vhost_vf *vfs;
	struct vhost_range load, run, timer_late, reset, scrub, init, window;
	unsigned reset_fails_ppm, command_fails_ppm;
	vgpu_nsec work_from;	       /* nobody has work before */
	bool refuse_windows_end;       /* tenants never give a window back */
	enum vhost_memory_kind memory; /* for no more than VGPU_GPU_MAX_VFS VFs; before start */
	unsigned memory_fails_ppm;     /* of clears, copies and entries of its table */
	uint64_t most_steps;	       /* of the core, then time stops; 0: no matter how many */

	bool unchecked;		 /* skip the invariants: they take n steps for each step */
	struct monitor *monitor; /* or NULL; see monitor.h */

	/* the device */
	vgpu_nsec command_at, timer_at;
	vgpu_nsec timer_for; /* the deadline for which the timer is armed, */
	vgpu_nsec armed;     /* and when that was */
	struct vgpu_event command;
	uint32_t running;
	struct heap due; /* VFs for which something happens by itself, by when */
	void *due_memory;
	int64_t *rows; /* scratch, for parameters of all VFs */

	/* what happened */
	uint64_t steps, switches, hash;
	uint64_t violations;
	char violation[256];	    /* the first */
	bool quiet;		    /* violations are not printed */
	bool goes_on;		    /* they do not stop the run, either */
	struct vhost_dispatch *log; /* of `log_max`, if the test lends any */
	size_t log_n, log_max;
	vgpu_nsec idle_asked;
	struct vgpu_output out;
	void *core_memory, *policy_memory[2], *fallback_memory;
	struct vhost_memory *gpu_memory;
};

/*
 * Makes a host of N VFs, all with work for ever and switches of no cost, under POLICY with its
 * default parameters. Change vfs[] and the ranges, then call vhost_start.
 */
void vhost_init(struct vhost *h, uint32_t n, uint64_t seed);
/* PARAMS and each row of VF_PARAMS may be NULL: defaults. */
void vhost_start(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		 const int64_t (*vf_params)[VGPU_MAX_PARAMS]);
/* Runs to instant UNTIL, or to the first violation, or for as many steps as it may make. */
void vhost_run(struct vhost *h, vgpu_nsec until);
/* No violation yet, and not as many steps as it may make. */
bool vhost_goes_on(const struct vhost *h);
/* VF's next_change has been set from outside. */
void vhost_touch(struct vhost *h, uint32_t vf);
/*
 * vgpud dies, and another one takes over: what the GPU is doing goes on, everything that the first
 * one knew is lost. Parameters as for vhost_start.
 */
void vhost_restart(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		   const int64_t (*vf_params)[VGPU_MAX_PARAMS]);
/* One event through the core. Parameters without a policy are for the one to come. */
int vhost_event(struct vhost *h, const struct vgpu_event *event);
/* The policy to come, which new parameters are for: see struct vgpu_core_view. */
const struct vgpu_policy_ops *vhost_policy(const struct vhost *h);
int vhost_change_policy(struct vhost *h, const struct vgpu_policy_ops *policy,
			const int64_t *params, const int64_t (*vf_params)[VGPU_MAX_PARAMS]);
void vhost_finish(struct vhost *h);
/* Changes of memory that were asked for, and partitions that were moved or set, so far. */
void vhost_memory_did(const struct vhost *h, uint64_t *changes, uint64_t *moves);

/* Sets a value by its parameter's name, if the table has it. */
void vhost_param(const struct vgpu_param *table, int64_t *values, const char *name, int64_t value);

/* Service charged to a VF so far, as its ledger has it. */
vgpu_nsec vhost_service(const struct vhost *h, uint32_t vf);
void vhost_fail(struct vhost *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t vhost_random(struct vhost *h);
/* For how long the job that VF works on has been there; 0: it has none, or its latency would not be
 * kept. */
vgpu_nsec vhost_pending(const struct vhost *h, uint32_t vf);
/* Latencies of up to MAX jobs of VF are kept, in memory of the host's. */
void vhost_keep_latencies(struct vhost *h, uint32_t vf, size_t max);

/*
 * Wraps POLICY so that every call is checked against the contract: one account for each pick,
 * nothing out of order. One at a time.
 */
const struct vgpu_policy_ops *vhost_checked(const struct vgpu_policy_ops *policy,
					    struct vhost *host);

#endif
