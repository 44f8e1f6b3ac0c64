/* SPDX-License-Identifier: MIT */
/*
 * The policy in force, and its parameters. A change is checked as a whole before any part of it
 * holds: by the policy, and against the firmware's abilities. It acts on the next epoch.
 */
#include <errno.h>
#include <string.h>

#include "private.h"

static int64_t *row(struct vgpu_governor *g, uint32_t vf)
{
	return g->vf_params + (size_t)vf * VGPU_MAX_PARAMS;
}

static int refuse(struct vgpu_governor *g, const char *why)
{
	g->out->why = why;
	return -EOPNOTSUPP;
}

/* Checks the tables and then the policy's promises, of all VFs. */
static int admit_all(struct vgpu_governor *g, const struct vgpu_governor_event *event)
{
	const char *why;
	uint32_t i;

	why = refuse_params(g, event->policy, event->params);
	for (i = 0; i < g->config.max_vfs && !why; i++)
		why = refuse_vf(event->policy, event->vf_params + (size_t)i * VGPU_MAX_PARAMS);
	if (why)
		return refuse(g, why);
	event->policy->attach(event->memory, &g->facts, event->params);
	for (i = 0; i < g->config.max_vfs; i++)
		if (!event->policy->admit(event->memory, i,
					  event->vf_params + (size_t)i * VGPU_MAX_PARAMS,
					  g->virtual, &g->out->why))
			return -EINVAL;
	why = refuse_promises(g, event->policy, event->memory);
	return why ? refuse(g, why) : 0;
}

/* Introduces the VFs to the new policy, as the core does: imports all lags before any VF wakes. */
static void introduce(struct vgpu_governor *g, const int64_t *lags)
{
	uint32_t i;

	for (i = 0; i < g->config.max_vfs && lags; i++)
		g->policy->import_lag(g->memory, i, lags[i]);
	for (i = 0; i < g->config.max_vfs; i++) {
		g->vfs[i].admitted = true;
		g->policy->online(g->memory, i, g->virtual);
		if (g->vfs[i].awake)
			g->policy->wake(g->memory, i, g->virtual);
	}
}

static void retire(struct vgpu_governor *g)
{
	if (!g->policy)
		return;
	if (g->policy->detach)
		g->policy->detach(g->memory, VGPU_DETACH_REPLACED,
				  "an operator chose another policy");
	g->out->retired = g->memory;
}

int claims_set_policy(struct vgpu_governor *g, const struct vgpu_governor_event *event)
{
	int64_t lags[VGPU_GPU_MAX_VFS];
	bool carried = g->policy && g->mode != VGPU_GOVERNOR_FAULTY;
	enum vgpu_governor_mode was = g->mode;
	uint32_t i;
	int r = admit_all(g, event);

	if (r < 0)
		return r;
	for (i = 0; i < g->config.max_vfs && carried; i++)
		lags[i] = vgpu_lag(g->policy, g->memory, i);
	retire(g);
	g->policy = event->policy;
	g->memory = event->memory;
	memcpy(g->params, event->params, sizeof(g->params));
	memcpy(g->vf_params, event->vf_params,
	       sizeof(int64_t) * VGPU_MAX_PARAMS * g->config.max_vfs);
	g->mode = refuse_mode(g->policy, g->params, &g->keep_turns);
	if (was == VGPU_GOVERNOR_STOPPED)
		g->mode = was;
	g->rewrite |= was != VGPU_GOVERNOR_NONE;
	introduce(g, carried ? lags : NULL);
	return 0;
}

int claims_set_params(struct vgpu_governor *g, const struct vgpu_governor_event *event)
{
	const char *why = refuse_params(g, g->policy, event->params);
	enum vgpu_governor_mode mode;

	if (why)
		return refuse(g, why);
	if (g->policy->check_params &&
	    !g->policy->check_params(g->memory, event->params, g->virtual, &g->out->why))
		return -EINVAL;
	g->policy->set_params(g->memory, event->params, g->virtual);
	why = refuse_promises(g, g->policy, g->memory);
	if (why) {
		g->policy->set_params(g->memory, g->params, g->virtual);
		return refuse(g, why);
	}
	memcpy(g->params, event->params, sizeof(g->params));
	mode = refuse_mode(g->policy, g->params, &g->keep_turns);
	if (g->mode == VGPU_GOVERNOR_GOVERNED || g->mode == VGPU_GOVERNOR_STATIC ||
	    (g->mode == VGPU_GOVERNOR_STILL && mode == VGPU_GOVERNOR_STATIC))
		g->mode = mode;
	g->rewrite = true;
	return 0;
}

int claims_set_vf(struct vgpu_governor *g, const struct vgpu_governor_event *event)
{
	const char *why = refuse_vf(g->policy, event->params), *unused;

	if (why)
		return refuse(g, why);
	if (!g->policy->set_vf(g->memory, event->vf, event->params, g->virtual, &g->out->why))
		return -EINVAL;
	why = refuse_promises(g, g->policy, g->memory);
	if (why) {
		g->policy->set_vf(g->memory, event->vf, row(g, event->vf), g->virtual, &unused);
		return refuse(g, why);
	}
	memcpy(row(g, event->vf), event->params, sizeof(int64_t) * VGPU_MAX_PARAMS);
	g->rewrite = true;
	return 0;
}
