/* SPDX-License-Identifier: MIT */
/* A policy that wraps another: it checks that the core calls it as the contract says, and that the
 * wrapped policy keeps its promises. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "vhost.h"

#define MAX_VFS 1024u
/* Lags are rounded, in ns. */
#define ROUNDED 1000

static struct {
	struct vgpu_policy_ops ops;
	const struct vgpu_policy_ops *inner;
	struct vhost *host;
	uint32_t open; /* picked, not accounted */
	vgpu_nsec last;
	bool awake[MAX_VFS];
	uint32_t n_awake;
	int64_t lags[MAX_VFS]; /* before it was asked to extend */
} checked;

/* Attaches the wrapped policy to a new core, as after a restart: nothing from before is known. */
static void checked_attach(void *state, const struct vgpu_facts *facts, const int64_t *params)
{
	checked.open = VGPU_NO_VF;
	checked.last = 0;
	checked.n_awake = 0;
	memset(checked.awake, 0, sizeof(checked.awake));
	checked.inner->attach(state, facts, params);
}

static void in_order(vgpu_nsec now)
{
	if (now < checked.last)
		vhost_fail(checked.host, "time went back for the policy");
	checked.last = now;
}

static bool checked_wake(void *state, uint32_t vf, vgpu_nsec now)
{
	in_order(now);
	if (checked.awake[vf])
		vhost_fail(checked.host, "VF %u woken twice", vf);
	if (vf == checked.open)
		vhost_fail(checked.host, "VF %u woken while dispatched", vf);
	checked.awake[vf] = true;
	checked.n_awake++;
	return checked.inner->wake(state, vf, now);
}

static void checked_sleep(void *state, uint32_t vf, vgpu_nsec now)
{
	in_order(now);
	if (!checked.awake[vf] || vf == checked.open)
		vhost_fail(checked.host, "VF %u put to sleep at the wrong time", vf);
	checked.awake[vf] = false;
	checked.n_awake--;
	checked.inner->sleep(state, vf, now);
}

static void checked_pick(void *state, struct vgpu_pick *out, vgpu_nsec now)
{
	in_order(now);
	if (checked.open != VGPU_NO_VF)
		vhost_fail(checked.host, "picked before VF %u was accounted", checked.open);
	checked.inner->pick(state, out, now);
	checked.open = out->vf;
	if (out->vf == VGPU_NO_VF && checked.n_awake &&
	    checked.inner->promises & VGPU_PROMISE_WORK_CONSERVING)
		vhost_fail(checked.host, "parked although %u VFs have work", checked.n_awake);
	if (out->vf != VGPU_NO_VF && !checked.awake[out->vf] &&
	    checked.inner->promises & VGPU_PROMISE_PROPORTIONAL)
		vhost_fail(checked.host, "picked VF %u, which has no work", out->vf);
}

static void checked_account(void *state, const struct vgpu_usage *usage)
{
	in_order(usage->end);
	if (checked.open != usage->vf)
		vhost_fail(checked.host, "VF %u was accounted, but VF %u was picked", usage->vf,
			   checked.open);
	checked.open = VGPU_NO_VF;
	checked.inner->account(state, usage);
}

/* Extends the grant. END may be in the future: what the VF would have had by then is not stored,
 * because a VF that wakes meanwhile would be compared with it. With limits, the policy may also
 * settle what VFs have paid. */
static vgpu_nsec checked_extend(void *state, uint32_t vf, vgpu_nsec end)
{
	const struct vgpu_policy_ops *p = checked.inner;
	uint32_t n = p->promises & VGPU_PROMISE_GUARANTEE ? 0 : checked.host->n_vfs, i;
	vgpu_nsec more;

	if (end < checked.last)
		vhost_fail(checked.host, "time went back for the policy");
	if (checked.open != vf)
		vhost_fail(checked.host, "VF %u was to be extended, but does not run", vf);
	for (i = 0; i < n; i++)
		checked.lags[i] = checked.awake[i] && i != vf ? p->export_lag(state, i) : 0;
	more = p->extend(state, vf, end);
	for (i = 0; i < n; i++)
		if (checked.awake[i] && i != vf &&
		    llabs(p->export_lag(state, i) - checked.lags[i]) > ROUNDED)
			vhost_fail(checked.host,
				   "VF %u is owed more or less because VF %u may go on", i, vf);
	return more;
}

static void checked_drained(void *state, uint32_t vf, vgpu_nsec now)
{
	in_order(now);
	if (checked.open != vf)
		vhost_fail(checked.host, "VF %u ran out of work, but is not dispatched", vf);
	checked.inner->drained(state, vf, now);
}

const struct vgpu_policy_ops *vhost_checked(const struct vgpu_policy_ops *policy,
					    struct vhost *host)
{
	assert(host->n_vfs <= MAX_VFS);
	memset(&checked, 0, sizeof(checked));
	checked.ops = *policy;
	checked.inner = policy;
	checked.host = host;
	checked.ops.attach = checked_attach;
	checked.ops.wake = checked_wake;
	checked.ops.sleep = checked_sleep;
	checked.ops.pick = checked_pick;
	checked.ops.account = checked_account;
	if (policy->extend)
		checked.ops.extend = checked_extend;
	if (policy->drained)
		checked.ops.drained = checked_drained;
	return &checked.ops;
}
