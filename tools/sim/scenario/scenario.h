/* SPDX-License-Identifier: MIT */
/*
 * A scenario: GPUs, tenants, a policy, faults, and what operators do, as text that people write,
 * and to which a failing random run is shrunk. docs/simulator.md describes it. No function here is
 * thread-safe.
 */
#pragma once

#include <stdio.h>

#include "vhost.h"

#define SCENARIO_MAX_GPUS 64u
#define SCENARIO_MAX_SETTINGS 12u

/* Parameters as text, because they may be for a policy that lacks some of them. */
struct settings {
	uint32_t n;
	struct {
		char name[24], value[24];
	} list[SCENARIO_MAX_SETTINGS];
};

struct scenario_item {
	vgpu_nsec t;
	enum vhost_item_kind kind;
	uint64_t value;
	struct settings params; /* VHOST_PARAM */
};

/* What a VF is used for; results are given for each role. */
enum role { ROLE_NONE = 0, ROLE_FRAMES, ROLE_INFERENCE, ROLE_TRAINING, ROLE_DESKTOP, ROLE_COUNT };

struct scenario_vf {
	enum role role;
	enum vhost_work work;
	struct vhost_range burst, think, period, late, save, rare, window;
	struct vhost_range quantum; /* quantum of a governed GPU, set by hand and never corrected */
	struct vhost_range late_span; /* the VF stops late in every other span of this length */
	bool strategist;	      /* whether it gains by what it does is judged: strategy.h */
	uint32_t rare_ppm, hang_ppm, reset_ppm, window_ppm;
	struct settings params;
	struct scenario_item *items;
	size_t n_items, max_items;
	uint32_t gpu; /* where it was placed */
};

/* What an operator does at an instant. */
struct scenario_op {
	vgpu_nsec t;
	uint32_t line; /* where it was read; of two at the same instant, the upper one is first */
	enum {
		OP_POLICY = 0,
		OP_SET,
		OP_SET_POLICY,
		OP_RESET,
		OP_RESTART,
		OP_COMES,   /* the VM of `vf` comes from another host */
		OP_RESUMES, /* its VM has resumed here, and owes `owed` */
	} type;
	uint32_t vf;
	vgpu_nsec owed;
	char policy[32];
	struct settings params;
};

enum placement { PLACE_ROUND_ROBIN = 0, PLACE_FIRST_FIT, PLACE_LEAST_LOADED };

/* A GPU whose firmware schedules. */
struct scenario_governed {
	bool on;
	vgpu_nsec step; /* step of quanta */
	vgpu_nsec stop; /* preemption time-out */
	vgpu_nsec epoch, rotation, turn, slack, settle, switch_ns;
	uint32_t tolerance_ppm;
	vgpu_nsec freeze; /* when the counters freeze; 0: never */
};

struct scenario {
	uint32_t n_vfs, n_gpus;
	enum placement placement;
	uint64_t memory; /* bytes of each GPU, for placement by what `mem` asks for; 0: unlimited */
	char policy[32];
	struct settings params;
	uint64_t seed;
	vgpu_nsec until, work_from;
	struct vhost_range load, run, init, window, scrub, reset, timer_late;
	uint32_t command_fails_ppm, reset_fails_ppm;
	bool gpu_reset, windows_stick, ask_at_end, chains;
	vgpu_nsec min_slice, min_run; /* min_run 0: as min_slice */
	struct scenario_governed governed;
	struct scenario_vf *vfs;
	struct scenario_op *ops;
	size_t n_ops, max_ops;
};

/* Names of roles; NULL-terminated. */
extern const char *const scenario_roles[];

/* Initialises a scenario with N_VFS tenants that always have work, for 10 s under `fair`. The
 * caller frees it by scenario_free. */
void scenario_init(struct scenario *s, uint32_t n_vfs);
void scenario_free(struct scenario *s);
/* Makes TO a deep copy of FROM. The caller frees it by scenario_free. */
void scenario_copy(struct scenario *to, const struct scenario *from);

/* Reads a file. Returns 0, and the caller frees S by scenario_free; or -errno, with the reason and
 * the line. */
int scenario_read(struct scenario *s, const char *path, struct vgpu_error *err);
/* As scenario_read, from F, which stays open; NAME: for messages. */
int scenario_read_from(struct scenario *s, FILE *f, const char *name, struct vgpu_error *err);
/* Writes S so that scenario_read reads the same scenario. */
void scenario_write(const struct scenario *s, FILE *to);

/* Adds or replaces a setting. Returns false if there is no room, or the setting is too long. */
bool settings_set(struct settings *s, const char *name, const char *value);
/* Applies settings to VALUES of the parameters of TABLE. STRICT: a setting that TABLE lacks is an
 * error. Returns 0, or -EINVAL with the reason. */
int settings_apply(const struct settings *s, const struct vgpu_param *table, bool strict,
		   int64_t *values, struct vgpu_error *err);

/* Add an empty item or operation, and return it; it belongs to the scenario, and stays where it is
 * until the next one is added. They end the program if memory runs out. */
struct scenario_item *scenario_add_item(struct scenario_vf *vf);
struct scenario_op *scenario_add_op(struct scenario *s);

/* One GPU of a scenario that runs. */
struct running {
	const struct scenario *scenario;
	struct vhost host;
	const struct vgpu_policy_ops *policy; /* as configured */
	uint32_t *vfs;			      /* the scenario's VFs on this GPU */
	size_t next_op;
	struct vhost_item **items; /* of each VF */
	const struct vgpu_policy_ops *(*find)(const char *name);
};

/*
 * Sets up GPU number GPU of S with POLICY (NULL: the scenario's; FIND finds policies by name).
 * CHECKED: calls of the policy are checked against the contract. MEMORY: what runs beside the core.
 * Returns 0, or -EINVAL with the reason.
 */
int running_start(struct running *r, const struct scenario *s, uint32_t gpu,
		  const struct vgpu_policy_ops *policy, bool checked, enum vhost_memory_kind memory,
		  const struct vgpu_policy_ops *(*find)(const char *name), struct vgpu_error *err);
/* Runs to instant UNTIL, with the changes by operators. */
void running_run(struct running *r, vgpu_nsec until);
/* Returns how many VFs of the GPU the policy does not admit. */
uint32_t running_refused(const struct running *r);
/* Returns the time in world switches, ns, whether or not it was charged to a VF. */
vgpu_nsec running_switched(const struct running *r);
void running_finish(struct running *r);

/* Places each VF on a GPU by the scenario's rule. Returns 0, or -ENOSPC with the reason. */
int scenario_place(struct scenario *s, struct vgpu_error *err);
