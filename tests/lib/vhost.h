/* SPDX-License-Identifier: MIT */
/*
 * A GPU and its tenants in virtual time, around the real core and the real policies. It moves to
 * the next instant at which anything can happen, fires one event (ties: the device's answers, then
 * tenants, then the timer), carries out the actions, and checks the invariants after every step.
 */
#ifndef TESTS_VHOST_H
#define TESTS_VHOST_H

#include "vgpu/core.h"

#define VHOST_MAX_VFS 64u

/* A value drawn anew each time: uniform in [min, max]. */
struct vhost_range {
	vgpu_nsec min, max;
};

enum vhost_work {
	VHOST_ALWAYS = 0, /* never out of work */
	VHOST_BURSTS,	  /* works for `burst`, then thinks for `think` */
	VHOST_NEVER,
};

struct vhost_vf {
	enum vhost_work work;
	struct vhost_range burst, think;
	struct vhost_range late; /* IDLE asked for to acknowledged */
	struct vhost_range save;
	unsigned hang_ppm;   /* of its preemptions */
	unsigned reset_ppm;  /* of its dispatches: its owner dies in mid-slice */
	unsigned window_ppm; /* of its dispatches: its driver stops, and starts again */

	/* state */
	vgpu_nsec left, next_change;
	bool busy, up, wants_init;
	uint64_t dispatches;
	vgpu_nsec last_start;
};

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
	struct vhost_vf vfs[VHOST_MAX_VFS];
	struct vhost_range load, run, timer_late, reset, scrub, init, window;
	unsigned reset_fails_ppm, command_fails_ppm;
	vgpu_nsec work_from;	 /* nobody has work before */
	bool refuse_windows_end; /* tenants never give a window back */

	/* the device */
	enum vgpu_context contexts[VHOST_MAX_VFS];
	vgpu_nsec command_at, reset_at[VHOST_MAX_VFS], scrub_at[VHOST_MAX_VFS],
		release_at[VHOST_MAX_VFS], timer_at;
	struct vgpu_event command;
	uint32_t reset_level[VHOST_MAX_VFS], scrubs[VHOST_MAX_VFS];
	enum vgpu_window release_kind[VHOST_MAX_VFS];
	uint32_t running;

	/* what happened */
	uint64_t steps, switches, hash;
	uint64_t violations;
	char violation[256];	    /* the first */
	struct vhost_dispatch *log; /* of `log_max`, if the test lends any */
	size_t log_n, log_max;
	vgpu_nsec idle_asked;
	struct vgpu_output out;
	void *memory, *policy_memory[2], *fallback_memory;
};

/*
 * Makes a host of N VFs, all with work for ever and switches of no cost, under POLICY with its
 * default parameters. Change vfs[] and the ranges, then call vhost_start.
 */
void vhost_init(struct vhost *h, uint32_t n, uint64_t seed);
/* PARAMS and each row of VF_PARAMS may be NULL: defaults. */
void vhost_start(struct vhost *h, const struct vgpu_policy_ops *policy, const int64_t *params,
		 const int64_t (*vf_params)[VGPU_MAX_PARAMS]);
void vhost_run(struct vhost *h, vgpu_nsec until);
int vhost_event(struct vhost *h, const struct vgpu_event *event);
int vhost_change_policy(struct vhost *h, const struct vgpu_policy_ops *policy,
			const int64_t *params, const int64_t (*vf_params)[VGPU_MAX_PARAMS]);
void vhost_finish(struct vhost *h);

/* The defaults of a parameter table, and one value by its name, if the table has it. */
void vhost_defaults(const struct vgpu_param *table, int64_t *values);
void vhost_param(const struct vgpu_param *table, int64_t *values, const char *name, int64_t value);

/* Service charged to a VF so far, as its ledger has it. */
vgpu_nsec vhost_service(const struct vhost *h, uint32_t vf);
void vhost_fail(struct vhost *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t vhost_random(struct vhost *h);

/*
 * Wraps POLICY so that every call is checked against the contract: one account for each pick,
 * nothing out of order. One at a time.
 */
const struct vgpu_policy_ops *vhost_checked(const struct vgpu_policy_ops *policy,
					    struct vhost *host);

#endif
