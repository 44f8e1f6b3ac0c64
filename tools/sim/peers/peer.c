/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "builtin.h"
#include "peer.h"
#include "plugin.h"

const struct vgpu_param peer_params[] = {
	[PEER_SLICE] = {"slice_us", "us", "length of one turn", VGPU_PARAM_INT, 500, 500000, 2000,
			NULL},
	[PEER_FACTOR] = {"avg_factor", "turns", "nv-arr only", VGPU_PARAM_INT, 1, 60, 33, NULL},
	{.name = NULL},
};

const struct vgpu_param peer_vf_params[] = {
	{"weight", "", "where the model knows weights", VGPU_PARAM_INT, 1, 10000, 100, NULL},
	{.name = NULL},
};

size_t peer_memory(uint32_t max_vfs)
{
	return sizeof(struct peer) + max_vfs * sizeof(struct peer_vf);
}

void peer_set_params(void *state, const int64_t *params, vgpu_nsec now)
{
	struct peer *p = state;

	(void)now;
	p->slice = params[PEER_SLICE] * (int64_t)VGPU_USEC;
	p->factor = params[PEER_FACTOR];
}

void peer_attach(void *state, const struct vgpu_facts *facts, const int64_t *params)
{
	struct peer *p = state;

	p->facts = facts;
	p->rng = 88172645463325252u;
	peer_set_params(state, params, 0);
}

bool peer_set_vf(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now, const char **why)
{
	struct peer *p = state;

	(void)now;
	(void)why;
	p->vfs[vf].weight = params[0];
	return true;
}

bool peer_admit(void *state, uint32_t vf, const int64_t *params, vgpu_nsec now, const char **why)
{
	struct peer *p = state;

	p->vfs[vf].admitted = true;
	return peer_set_vf(state, vf, params, now, why);
}

void peer_remove(void *state, uint32_t vf, vgpu_nsec now)
{
	struct peer *p = state;

	(void)now;
	p->vfs[vf] = (struct peer_vf){.admitted = false};
}

void peer_online(void *state, uint32_t vf, vgpu_nsec now)
{
	struct peer *p = state;

	(void)now;
	p->vfs[vf].online = true;
}

void peer_offline(void *state, uint32_t vf, vgpu_nsec now)
{
	struct peer *p = state;

	(void)now;
	p->vfs[vf].online = false;
}

bool peer_wake(void *state, uint32_t vf, vgpu_nsec now)
{
	struct peer *p = state;

	(void)now;
	p->vfs[vf].awake = true;
	return false;
}

void peer_sleep(void *state, uint32_t vf, vgpu_nsec now)
{
	struct peer *p = state;

	(void)now;
	p->vfs[vf].awake = false;
}

void peer_forget(void *state, const struct vgpu_usage *usage)
{
	(void)state;
	(void)usage;
}

int64_t peer_export_lag(void *state, uint32_t vf)
{
	(void)state;
	(void)vf;
	return 0;
}

void peer_import_lag(void *state, uint32_t vf, int64_t lag)
{
	(void)state;
	(void)vf;
	(void)lag;
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

void peer_bound(void *state, uint32_t vf, struct vgpu_bound *out)
{
	(void)state;
	(void)vf;
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

extern const struct vgpu_policy_ops peer_nv_arr, peer_nv_least, peer_amd_fair, peer_amd_liquid,
	peer_gvt_tbs, peer_credit2, peer_lottery, peer_stride, peer_band, peer_pup;

const struct vgpu_policy_ops *const peers[] = {
	&peer_nv_arr,  &peer_nv_least, &peer_amd_fair, &peer_amd_liquid,
	&peer_gvt_tbs, &peer_credit2,  &peer_lottery,  &peer_stride,
	&peer_band,    &peer_pup,      NULL,
};

const struct vgpu_policy_ops *peer_or_policy(const char *name)
{
	unsigned i;

	for (i = 0; peers[i]; i++)
		if (strcmp(peers[i]->name, name) == 0)
			return peers[i];
	for (i = 0; plugin_loaded(i); i++)
		if (strcmp(plugin_loaded(i)->name, name) == 0)
			return plugin_loaded(i);
	return vgpu_builtin_policy(name);
}
