/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "peer.h"

const struct vgpu_param peer_params[] = {
	[PEER_SLICE] = {"slice_us", "us", "length of one turn", VGPU_PARAM_INT, 500, 500000, 2000,
			NULL},
	[PEER_FACTOR] = {"avg_factor", "turns", "nv-arr only", VGPU_PARAM_INT, 1, 60, 33, NULL},
	{.name = NULL},
};

const struct vgpu_param peer_vf_params[] = {
	[PEER_VF_WEIGHT] = {"weight", "", "share, if the model has weights", VGPU_PARAM_INT, 1,
			    10000, 100, NULL},
	[PEER_VF_WARP] = {"warp_us", "us", "bvt only: virtual time that it borrows", VGPU_PARAM_INT,
			  0, 1000000, 0, NULL},
	[PEER_VF_WARP_LIMIT] = {"warp_limit_us", "us", "bvt only: longest warp; 0: unlimited",
				VGPU_PARAM_INT, 0, 1000000, 0, NULL},
	[PEER_VF_UNWARP] = {"unwarp_us", "us", "bvt only: time without warp after that",
			    VGPU_PARAM_INT, 0, 10000000, 0, NULL},
	{.name = NULL},
};

static size_t size_of(uint32_t max_vfs)
{
	return sizeof(struct peer) + max_vfs * sizeof(struct peer_vf);
}

size_t peer_memory(uint32_t max_vfs)
{
	return 2 * size_of(max_vfs); /* the model, and a copy for peer_extend */
}

void peer_set_params(void *state, const int64_t *params, vgpu_nsec)
{
	struct peer *p = state;

	p->slice = params[PEER_SLICE] * (int64_t)VGPU_USEC;
	p->factor = params[PEER_FACTOR];
}

void peer_attach(void *state, const struct vgpu_facts *facts, const int64_t *params)
{
	struct peer *p = state;

	p->facts = facts;
	p->rng = 88172645463325252u;
	p->running = VGPU_NO_VF;
	peer_set_params(state, params, 0);
}

bool peer_set_vf(void *state, uint32_t vf, const int64_t *params, vgpu_nsec, const char **)
{
	struct peer *p = state;

	p->vfs[vf].weight = params[PEER_VF_WEIGHT];
	p->vfs[vf].warp = params[PEER_VF_WARP] * (int64_t)VGPU_USEC;
	p->vfs[vf].warp_limit = params[PEER_VF_WARP_LIMIT] * (int64_t)VGPU_USEC;
	p->vfs[vf].unwarp = params[PEER_VF_UNWARP] * (int64_t)VGPU_USEC;
	return true;
}

bool peer_admit(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now, const char **why)
{
	struct peer *p = state;

	p->vfs[vf].admitted = true;
	return peer_set_vf(state, vf, params, now, why);
}

void peer_remove(void *state, uint32_t vf, vgpu_nsec)
{
	struct peer *p = state;

	p->vfs[vf] = (struct peer_vf){.admitted = false};
}

void peer_online(void *state, uint32_t vf, vgpu_nsec)
{
	struct peer *p = state;

	p->vfs[vf].online = true;
}

void peer_offline(void *state, uint32_t vf, vgpu_nsec)
{
	struct peer *p = state;

	p->vfs[vf].online = false;
}

bool peer_wake(void *state, uint32_t vf, vgpu_nsec)
{
	struct peer *p = state;

	p->vfs[vf].awake = true;
	return false;
}

void peer_sleep(void *state, uint32_t vf, vgpu_nsec)
{
	struct peer *p = state;

	p->vfs[vf].awake = false;
}

void peer_run(void *state, uint32_t vf, vgpu_nsec now)
{
	struct peer *p = state;

	p->running = vf;
	p->since = now;
	p->counted = 0;
}

void peer_account(void *state, const struct vgpu_usage *usage,
		  void (*account)(void *state, const struct vgpu_usage *usage))
{
	struct peer *p = state;
	vgpu_nsec counted = p->running == usage->vf ? (vgpu_nsec)p->counted : 0;
	struct vgpu_usage rest = *usage;

	rest.start += counted;
	rest.used -= counted;
	rest.charge -= counted;
	rest.granted -= counted;
	account(p, &rest);
	p->running = VGPU_NO_VF;
	p->counted = 0;
}

vgpu_nsec peer_extend(void *state, uint32_t vf, vgpu_nsec now,
		      void (*pick)(void *state, struct vgpu_pick *out, vgpu_nsec now),
		      void (*account)(void *state, const struct vgpu_usage *usage))
{
	struct peer *p = state;
	size_t size = size_of(p->facts->max_vfs);
	struct peer *after = (struct peer *)((char *)state + size);
	vgpu_nsec ran = now - p->since;
	struct vgpu_usage so_far = {.vf = vf,
				    .reason = VGPU_END_SLICE,
				    .start = p->since,
				    .end = now,
				    .granted = ran,
				    .used = ran,
				    .charge = ran};
	struct vgpu_pick next = {.vf = VGPU_NO_VF};

	memcpy(after, p, size);
	account(after, &so_far);
	after->running = VGPU_NO_VF;
	pick(after, &next, now);
	if (next.vf != vf)
		return 0;
	memcpy(p, after, size);
	p->running = vf;
	p->since = now;
	p->counted += (int64_t)ran;
	return next.slice;
}

void peer_forget(void *, const struct vgpu_usage *)
{
}

int64_t peer_export_lag(void *, uint32_t)
{
	return 0;
}

void peer_import_lag(void *, uint32_t, int64_t)
{
}

int64_t peer_weights(const struct peer *p)
{
	int64_t sum = 0;
	uint32_t i;

	for (i = 0; i < p->facts->max_vfs; i++)
		sum += p->vfs[i].admitted ? p->vfs[i].weight : 0;
	return sum ? sum : 1;
}

void peer_share(void *state, uint32_t vf, uint64_t *numerator, uint64_t *denominator)
{
	struct peer *p = state;

	*numerator = (uint64_t)p->vfs[vf].weight;
	*denominator = (uint64_t)peer_weights(p);
}

void peer_bound(void *, uint32_t, struct vgpu_bound *out)
{
	out->max_lag = VGPU_NEVER;
	out->max_wait = VGPU_NEVER;
}

uint32_t peer_next_awake(const struct peer *p, uint32_t from)
{
	uint32_t n = p->facts->max_vfs, i;

	for (i = 1; i <= n; i++)
		if (p->vfs[(from + i) % n].awake)
			return (from + i) % n;
	return VGPU_NO_VF;
}

uint32_t peer_least(const struct peer *p)
{
	uint32_t i, best = VGPU_NO_VF;

	for (i = 0; i < p->facts->max_vfs; i++)
		if (p->vfs[i].awake && (best == VGPU_NO_VF || p->vfs[i].a < p->vfs[best].a))
			best = i;
	return best;
}

int64_t peer_least_value(const struct peer *p)
{
	uint32_t least = peer_least(p);

	return least == VGPU_NO_VF ? 0 : p->vfs[least].a;
}

bool peer_wake_level(void *state, uint32_t vf, vgpu_nsec now)
{
	struct peer *p = state;
	int64_t least = peer_least_value(p);

	if (p->vfs[vf].a < least)
		p->vfs[vf].a = least;
	return peer_wake(state, vf, now);
}

void peer_pick_least(void *state, struct vgpu_pick *out, vgpu_nsec)
{
	struct peer *p = state;

	out->vf = peer_least(p);
	out->slice = (vgpu_nsec)p->slice;
}
