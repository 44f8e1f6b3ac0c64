/* SPDX-License-Identifier: MIT */
/*
 * A GPU and its tenants in virtual time, around the real core and the real policies. The host moves
 * to the next instant at which anything can happen, fires one event (at equal instants the device's
 * answers first, then tenants, then the timer), carries out the actions, and checks the invariants
 * after every step.
 */
#pragma once

#include "heap.h"
#include "vgpu/core.h"

/* A value that is drawn anew each time, uniformly from [min, max]. */
struct vhost_range {
	vgpu_nsec min, max;
};

enum vhost_work {
	VHOST_ALWAYS = 0, /* never out of work */
	VHOST_BURSTS,	  /* works for `burst`, then thinks for `think` */
	VHOST_NEVER,
	VHOST_SLEEPER, /* always has work, but hides it just before its slice ends */
	VHOST_SCRIPT,  /* does what `items` say */
	/* A job of `burst` at each tick. Ticks are `period` apart; the first is at a phase drawn
	   from the seed. A tick at which the job before is not done is missed: it brings no job. */
	VHOST_PERIODIC,
	VHOST_WINDOWS, /* has no work; its driver starts and stops as often as it may */
};

/* One line of a workload. */
enum vhost_item_kind {
	VHOST_ARRIVE = 0, /* its driver comes up */
	VHOST_WORK,	  /* a job of `value` ns */
	VHOST_THINK,  /* the next line waits until the VF is out of work, and `value` ns longer */
	VHOST_DEPART, /* its driver goes down */
	VHOST_PARAM,  /* its parameters become `params` */
	VHOST_EXCL,   /* its driver restarts; each window takes `value` ns */
	VHOST_HANG,   /* it does not stop at the next preemption */
	VHOST_MEM,    /* it asks for `value` bytes: for placement only */
	VHOST_PREP,   /* a job of `value` ns whose latency is not kept: preparation */
};

struct vhost_item {
	vgpu_nsec t;
	enum vhost_item_kind kind;
	uint64_t value;
	const int64_t *params;
	const struct vgpu_param *table; /* the table that params were parsed with */
};

struct vhost_job {
	vgpu_nsec arrived, left;
	bool prep; /* its latency is not kept */
};

struct vhost_vf {
	enum vhost_work work;
	struct vhost_range burst, think;
	struct vhost_range period;    /* VHOST_PERIODIC: above 0 */
	struct vhost_range late;      /* from IDLE issued to IDLE acknowledged */
	struct vhost_range late_span; /* if set: only in every other span of this length */
	struct vhost_range save;
	struct vhost_range window; /* its exclusive windows; 0: as the host's */
	unsigned hang_ppm;	   /* part of its preemptions that hang */
	unsigned reset_ppm;	   /* part of its dispatches in which its tenant dies */
	unsigned window_ppm;	   /* part of its dispatches in which its driver restarts */

	struct vhost_range rare; /* instead of `late`, now and then */
	unsigned rare_ppm;
	const struct vhost_item *items;
	size_t n_items;
	bool stays_down; /* its driver stays down until its script says otherwise */

	/* state */
	vgpu_nsec next_change;
	vgpu_nsec tick;	 /* the next tick; 0: its phase is not drawn yet */
	uint64_t missed; /* ticks */
	bool busy, up, wants_init;
	bool incoming; /* its VM comes from another host: no command may load it */
	bool dirty;    /* its memory may hold data of a former tenant */
	bool hangs_next;
	vgpu_nsec own_window; /* length of its next windows; 0: the host's range */
	size_t item;
	struct vhost_job *jobs; /* a ring of jobs_size, a power of two */
	uint32_t jobs_head, jobs_tail, jobs_size;
	vgpu_nsec queued; /* engine time that all its jobs still need */
	uint64_t dispatches;
	vgpu_nsec last_start;
	vgpu_nsec *latencies; /* latencies of jobs, from arrival (of a periodic job: its tick) to
				 end, while there is room */
	size_t n_latencies, max_latencies;
	char *refused; /* the policy's reason for not admitting it, or NULL */

	/* its part of the device */
	enum vgpu_context context;
	vgpu_nsec reset_at, scrub_at, release_at;
	uint32_t reset_level, scrubs;
	enum vgpu_window release_kind;
};

/* What models the GPU's memory beside the core. */
enum vhost_memory_kind {
	VHOST_MEMORY_NONE = 0, /* clearing takes some time, nothing else */
	VHOST_MEMORY_CLEARS,   /* the memory reducer clears; partitions stay as they are */
	VHOST_MEMORY_CHANGES,  /* partitions change and move, too */
	VHOST_MEMORY_FORCED,   /* changes by force, too; for every third seed VFs are swapped */
};

struct vhost_memory;

struct vhost_dispatch {
	uint32_t vf;
	vgpu_nsec start, end, granted;
};

/* A command in flight, and the answer to it. */
struct vhost_command {
	uint32_t vf;
	uint32_t code; /* enum vgpu_command */
	int64_t status;
};

#define VHOST_CHAIN 3

struct vhost {
	struct vgpu_core *core;
	struct vgpu_core_config config;
	vgpu_nsec now;
	uint64_t seed, rng;
	uint32_t n_vfs;
	struct vhost_vf *vfs;
	struct vhost_range load, run, timer_late, reset, scrub, init, window;
	unsigned reset_fails_ppm, command_fails_ppm;
	vgpu_nsec work_from;	 /* no VF has work before this instant */
	bool refuse_windows_end; /* tenants never give a window back */
	enum vhost_memory_kind
		memory;		   /* for at most VGPU_GPU_MAX_VFS VFs; set before vhost_start */
	unsigned memory_fails_ppm; /* part of the clears, copies and table entries that fail */
	uint64_t most_steps;	   /* the most steps of the core, then time stops; 0: unlimited */

	bool unchecked;		 /* skip the invariants, which cost n VFs for each step */
	struct monitor *monitor; /* or NULL; see monitor.h */

	/* the device */
	vgpu_nsec command_at, timer_at;
	vgpu_nsec timer_for; /* the deadline for which the timer is armed */
	vgpu_nsec armed;     /* time at which the timer was armed */
	struct vhost_command command;
	struct vgpu_action chain[VHOST_CHAIN]; /* commands that follow the one in flight */
	uint32_t chain_n, chain_at;
	uint64_t command_step; /* the step in which the last command was issued */
	uint32_t running;
	struct heap due; /* VFs to which something will happen without an event of the core, by
			    instant */
	void *due_memory;
	int64_t *rows; /* scratch, for parameters of all VFs */

	/* what happened */
	uint64_t steps, switches, hash;
	uint64_t violations;
	char violation[256];	    /* the first */
	bool quiet;		    /* violations are not printed */
	bool goes_on;		    /* violations do not stop the run */
	struct vhost_dispatch *log; /* log_max entries, if the caller lends them */
	size_t log_n, log_max;
	vgpu_nsec idle_asked;
	struct vgpu_output out;
	void *core_memory, *policy_memory[2], *fallback_memory;
	struct vhost_memory *gpu_memory;
};

/*
 * Initialises a host of N VFs, which always have work, with world switches that take no time.
 * Change vfs[] and the ranges, then call vhost_start. vhost_finish frees what it holds.
 */
void vhost_init(struct vhost *h, uint32_t n, uint64_t seed);
/* Starts the core under POLICY. PARAMS and VF_PARAMS (a row for each VF) may be NULL: defaults. */
void vhost_start(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		 const int64_t (*vf_params)[VGPU_MAX_PARAMS]);
/* Runs to instant UNTIL, to the first violation, or to the last allowed step. */
void vhost_run(struct vhost *h, vgpu_nsec until);
/* Makes the guest of VF, whose driver is up, reset its function. */
void vhost_guest_reset(struct vhost *h, uint32_t vf);
/* Returns whether the run may go on: no violation yet, and steps are left. */
bool vhost_goes_on(const struct vhost *h);
/* Must be called after VF's next_change was set from outside. */
void vhost_touch(struct vhost *h, uint32_t vf);
/*
 * Ends vgpud and starts another one, which takes over: the GPU goes on, everything that the first
 * vgpud knew is lost. Parameters as for vhost_start.
 */
void vhost_restart(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		   const int64_t (*vf_params)[VGPU_MAX_PARAMS]);
/* Steps the core by an event, at the present instant, and returns the core's result. Parameters
 * without a policy are for the policy to come. */
int vhost_event(struct vhost *h, const struct vgpu_event *event);
/* vhost_comes: the VM of VF migrates here from another host, if the core accepts it. vhost_resumes:
 * it has resumed, with a debt of OWED ns. */
void vhost_comes(struct vhost *h, uint32_t vf);
void vhost_resumes(struct vhost *h, uint32_t vf, int64_t owed);
/* Returns the policy to come, for which new parameters are: see struct vgpu_core_view. */
const struct vgpu_policy_ops *vhost_policy(const struct vhost *h);
int vhost_change_policy(struct vhost *h, const struct vgpu_policy_ops *policy,
			const int64_t *params, const int64_t (*vf_params)[VGPU_MAX_PARAMS]);
void vhost_finish(struct vhost *h);
/* Writes how many changes of memory were requested, and how many partitions were moved or set, so
 * far. */
void vhost_memory_did(const struct vhost *h, uint64_t *changes, uint64_t *moves);

/* Sets a parameter's value by its name, if TABLE has it. */
void vhost_param(const struct vgpu_param *table, int64_t *values, const char *name, int64_t value);

/* Returns a VF's run time so far, from its ledger. */
vgpu_nsec vhost_service(const struct vhost *h, uint32_t vf);
void vhost_fail(struct vhost *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t vhost_random(struct vhost *h);
/* Returns how long ago VF's present job arrived; 0: it has none, or the job's latency is not kept.
 */
vgpu_nsec vhost_pending(const struct vhost *h, uint32_t vf);
/* Keeps the latencies of up to MAX jobs of VF, in memory that H owns. */
void vhost_keep_latencies(struct vhost *h, uint32_t vf, size_t max);

/*
 * Returns POLICY wrapped so that every call is checked against the contract: one account for each
 * pick, all calls in order. Only one wrapped policy may exist at a time.
 */
const struct vgpu_policy_ops *vhost_checked(const struct vgpu_policy_ops *policy,
					    struct vhost *host);
