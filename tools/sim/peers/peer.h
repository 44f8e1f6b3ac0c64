/* SPDX-License-Identifier: MIT */
/*
 * Models of other schedulers' published rules, for comparison: on a preemptive engine, with vgpud's
 * world switch, and without anything else that those products do. They are not measurements of
 * those products. A model is its pick, its account and its wake; what the models share is here.
 */
#pragma once

#include "vgpu/policy.h"

enum { PEER_SLICE, PEER_FACTOR };
enum { PEER_VF_WEIGHT, PEER_VF_WARP, PEER_VF_WARP_LIMIT, PEER_VF_UNWARP };

struct peer_vf {
	bool admitted, online, awake;
	int64_t weight;
	int64_t a, b; /* for the model to use */
	uint64_t order;
	int64_t warp, warp_limit, unwarp, warped; /* bvt's */
	vgpu_nsec unwarped_until;
	int64_t interval, runtime, since_wake, critical; /* lavd's */
	vgpu_nsec woke;
};

struct peer {
	const struct vgpu_facts *facts;
	int64_t slice, factor; /* ns; nv-arr's averaging factor */
	uint32_t last;	       /* dispatched last */
	uint32_t running;      /* on the engine, or VGPU_NO_VF */
	vgpu_nsec since;       /* the running VF is charged up to this instant */
	int64_t counted;       /* how much of its dispatch is charged already */
	vgpu_nsec next;	       /* for the model: when it does its accounting next */
	uint64_t count, rng;   /* for the model to use */
	bool idled;
	struct peer_vf vfs[];
};

extern const struct vgpu_param peer_params[], peer_vf_params[];

/* The operations that models have in common: see struct vgpu_policy_ops. */
size_t peer_memory(uint32_t max_vfs);
void peer_attach(void *state, const struct vgpu_facts *facts, const int64_t *params);
void peer_set_params(void *state, const int64_t *params, vgpu_nsec now);
bool peer_admit(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now, const char **why);
bool peer_set_vf(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now, const char **why);
void peer_remove(void *state, uint32_t vf, vgpu_nsec now);
void peer_online(void *state, uint32_t vf, vgpu_nsec now);
void peer_offline(void *state, uint32_t vf, vgpu_nsec now);
bool peer_wake(void *state, uint32_t vf, vgpu_nsec now);
void peer_sleep(void *state, uint32_t vf, vgpu_nsec now);
/* Records which VF runs, and since when. */
void peer_run(void *state, uint32_t vf, vgpu_nsec now);
/* Calls ACCOUNT with the part of USAGE that is not counted yet. */
void peer_account(void *state, const struct vgpu_usage *usage,
		  void (*account)(void *state, const struct vgpu_usage *usage));
/* If PICK would name VF again after it is charged for its run time so far: charges it, and returns
 * for how long it goes on, ns. Else changes nothing, and returns 0. */
vgpu_nsec peer_extend(void *state, uint32_t vf, vgpu_nsec now,
		      void (*pick)(void *state, struct vgpu_pick *out, vgpu_nsec now),
		      void (*account)(void *state, const struct vgpu_usage *usage));
void peer_forget(void *state, const struct vgpu_usage *usage);
int64_t peer_export_lag(void *state, uint32_t vf);
void peer_import_lag(void *state, uint32_t vf, int64_t lag);
void peer_share(void *state, uint32_t vf, uint64_t *numerator, uint64_t *denominator);
void peer_bound(void *state, uint32_t vf, struct vgpu_bound *out);

/* Returns the next VF after FROM that has work, or VGPU_NO_VF. */
uint32_t peer_next_awake(const struct peer *p, uint32_t from);
int64_t peer_weights(const struct peer *p);
/* Returns the VF that has work and the smallest `a`; ties are broken by number. */
uint32_t peer_least(const struct peer *p);
/* Returns the smallest `a` of the VFs that have work; 0 if none has. */
int64_t peer_least_value(const struct peer *p);
/* For models in which the VF with the smallest `a` is next. peer_wake_level: a VF that wakes is not
 * behind those that worked meanwhile. */
void peer_pick_least(void *state, struct vgpu_pick *out, vgpu_nsec now);
bool peer_wake_level(void *state, uint32_t vf, vgpu_nsec now);

/*
 * Defines a model by its pick, its account and its wake. A model that would pick the same VF again
 * extends its grant, as the originals do, without a world switch from the VF to itself.
 */
#define PEER(symbol, title, says, pick_, account_, wake_)                                          \
	static void symbol##_account(void *state, const struct vgpu_usage *usage)                  \
	{                                                                                          \
		peer_account(state, usage, account_);                                              \
	}                                                                                          \
	static vgpu_nsec symbol##_extend(void *state, uint32_t vf, vgpu_nsec now)                  \
	{                                                                                          \
		return peer_extend(state, vf, now, pick_, account_);                               \
	}                                                                                          \
	const struct vgpu_policy_ops symbol = {                                                    \
		.size = sizeof(struct vgpu_policy_ops),                                            \
		.abi_major = VGPU_POLICY_ABI_MAJOR,                                                \
		.abi_minor = VGPU_POLICY_ABI_MINOR,                                                \
		.name = title,                                                                     \
		.help = says,                                                                      \
		.params = peer_params,                                                             \
		.vf_params = peer_vf_params,                                                       \
		.memory = peer_memory,                                                             \
		.attach = peer_attach,                                                             \
		.set_params = peer_set_params,                                                     \
		.admit = peer_admit,                                                               \
		.set_vf = peer_set_vf,                                                             \
		.remove = peer_remove,                                                             \
		.online = peer_online,                                                             \
		.offline = peer_offline,                                                           \
		.wake = wake_,                                                                     \
		.sleep = peer_sleep,                                                               \
		.pick = pick_,                                                                     \
		.run = peer_run,                                                                   \
		.account = symbol##_account,                                                       \
		.export_lag = peer_export_lag,                                                     \
		.import_lag = peer_import_lag,                                                     \
		.share = peer_share,                                                               \
		.bound = peer_bound,                                                               \
		.extend = symbol##_extend,                                                         \
	};

/* All models, NULL-terminated. */
extern const struct vgpu_policy_ops *const peers[];
/* Returns the model, the loaded plug-in or the built-in policy called NAME, or NULL. */
const struct vgpu_policy_ops *peer_or_policy(const char *name);
