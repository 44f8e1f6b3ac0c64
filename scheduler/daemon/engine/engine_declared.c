/* SPDX-License-Identifier: MIT */
/*
 * GPUs with policies of their own: the vendor's scheduler decides. vgpud chooses the policy, and
 * records its observations.
 */
#include "engine_declared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine_unswitched.h"

struct declared {
	struct unswitched common;
	struct vgpu_observation seen;
};

/* Parameters that have an effect on such a GPU. All others must have their defaults, so that no
 * operator relies on a parameter without effect. */
static const char *const meant[] = {"slice_us", "slice", "idle", "slots", NULL};

static const char WAITS[] =
	"the configured policy of this GPU waits: its driver changes it only while no vGPU exists";

static const char STALE[] =
	"what this GPU does cannot be observed ('vgpuctl gpu show' says why); vgpud keeps trying";

void declared_free(struct declared *d)
{
	free(d);
}

static bool has_meaning(const char *name)
{
	int i;

	for (i = 0; meant[i]; i++)
		if (strcmp(meant[i], name) == 0)
			return true;
	return false;
}

static bool are_usual(const struct vgpu_param *table, const int64_t *values)
{
	int i;

	for (i = 0; table[i].name; i++)
		if (!has_meaning(table[i].name) && values[i] != table[i].def)
			return false;
	return true;
}

static int64_t value_of(const struct vgpu_param *table, const int64_t *values, const char *name)
{
	int i;

	for (i = 0; table[i].name; i++)
		if (strcmp(table[i].name, name) == 0)
			return values[i];
	return 0;
}

const char *declaration_of(const struct policy_values *values, uint32_t n,
			   struct vgpu_declaration *out)
{
	static const char *const names[] = {"strict", "equal", "best-effort"};
	const struct vgpu_policy_ops *policy = values->policy;
	size_t i, at;

	for (at = 0; at < 3 && strcmp(names[at], policy->name) != 0; at++)
		;
	if (at == 3)
		return "this GPU has policies of its own: choose strict (fixed share), equal or "
		       "best-effort";
	if (value_of(policy->params, values->params, "idle") != 0)
		return "idle: this GPU holds the turn of a vGPU without work; use idle = hold";
	if (!are_usual(policy->params, values->params))
		return "the policy of this GPU has no parameters but slice_us; leave all others "
		       "at their defaults";
	for (i = 0; i < n; i++)
		if (!are_usual(policy->vf_params, values->vf_params[i]) ||
		    value_of(policy->vf_params, values->vf_params[i], "slots") !=
			    value_of(policy->vf_params, values->vf_params[0], "slots"))
			return "slots: this GPU gives all vGPUs turns of one length; give all VFs "
			       "the same";
	*out = (struct vgpu_declaration){.policy = names[at]};
	/* The GPU chooses the length of best-effort's turns. */
	if (at < 2 && value_of(policy->params, values->params, "slice") == 0)
		out->slice =
			(vgpu_nsec)value_of(policy->params, values->params, "slice_us") * VGPU_USEC;
	return NULL;
}

/* Records what has changed. */
static void look(struct engine *e)
{
	struct declared *d = e->declared;
	struct vgpu_observation before = d->seen;
	uint32_t i;

	if (!e->ops->declared->observe(e->driver, &d->seen))
		return;
	for (i = 0; i < e->config.core.max_vfs; i++)
		if ((d->common.up ^ d->seen.up) >> i & 1)
			unswitched_set_up(e, &d->common, i, d->seen.up >> i & 1);
	if (d->seen.stale && !before.stale)
		engine_say(e, STALE);
	else if (d->seen.trouble && d->seen.trouble != before.trouble)
		engine_say(e, d->seen.trouble);
	else if (d->seen.waits && !d->seen.trouble && !before.waits)
		engine_say(e, WAITS);
}

static int build(struct engine *e)
{
	e->out.why = "out of memory";
	if (!e->declared)
		e->declared = calloc(1, sizeof(*e->declared));
	if (!e->declared)
		return -ENOMEM;
	*e->declared = (struct declared){.common = e->declared->common};
	unswitched_restart(&e->declared->common);
	recorder_restart(e->recorder); /* there is nothing to replay */
	engine_say(e, e->caps.note);
	look(e);
	unswitched_take(e, &e->declared->common, &e->config.begin);
	return 0;
}

static vgpu_nsec deadline(const struct engine *e)
{
	return unswitched_deadline(&e->declared->common);
}

static int keep(struct engine *e)
{
	look(e);
	return unswitched_keep(e, &e->declared->common);
}

static int on_event(struct engine *e, struct vgpu_event *event)
{
	if (event->type == VGPU_EV_RESET_DONE)
		unswitched_reset_done(e, &e->declared->common, event);
	return 0;
}

/* Replaces the policy in force by NEXT, if the GPU supports it. */
static void change_to(struct engine *e, struct engine_request *request,
		      const struct policy_values *next)
{
	struct vgpu_declaration now, want;
	struct vgpu_error err = {""};
	const char *why = declaration_of(next, e->config.core.max_vfs, &want);

	if (why) {
		engine_refuse(request, -EOPNOTSUPP, "%s", why);
		return;
	}
	declaration_of(&e->declared->common.values, e->config.core.max_vfs, &now);
	/* Tries again what waits, or was refused. */
	if (strcmp(now.policy, want.policy) != 0 || now.slice != want.slice ||
	    e->declared->seen.waits || e->declared->seen.trouble)
		request->result = e->ops->declared->declare(e->driver, &want, &err);
	if (request->result < 0) {
		engine_refuse(request, request->result, "%s", err.text);
		return;
	}
	unswitched_take(e, &e->declared->common, next);
}

static void change(struct engine *e, struct engine_request *request)
{
	struct declared *d = e->declared;
	struct policy_values next;

	switch (request->event.type) {
	case VGPU_EV_POLICY:
		next = unswitched_policy(&request->event, e->config.core.max_vfs);
		change_to(e, request, &next);
		break;
	case VGPU_EV_SET_POLICY:
	case VGPU_EV_SET_VF:
		if (unswitched_change(&d->common, request, &next))
			change_to(e, request, &next);
		break;
	case VGPU_EV_RESET_VF:
		if (unswitched_reset(e, &d->common, request) < 0)
			engine_lose(e, request->result);
		break;
	case VGPU_EV_INCOMING: /* the kernel's driver keeps a VF stopped, and counts its time */
		break;
	default:
		engine_refuse(request, -EOPNOTSUPP,
			      "the driver of this GPU schedules it: vgpud cannot do this");
	}
}

static void stop(struct engine *e)
{
	(void)e; /* the policy stays in force */
}

static bool at_rest(struct engine *)
{
	return true;
}

/* Whether a VF has work is unknown: a running VM may have none. */
static void view_vf(const struct declared *d, uint32_t i, struct engine_snapshot *s)
{
	struct vgpu_vf_view *to = &s->vfs[i];
	bool up = d->common.up >> i & 1;

	to->share_denominator = 1;
	to->bound = (struct vgpu_bound){.max_lag = VGPU_NEVER, .max_wait = VGPU_NEVER};
	/* The share under strict is that of the largest number of instances of the type, which
	 * vgpud does not know. */
	if (up && strcmp(d->common.values.policy->name, "equal") == 0) {
		to->share_numerator = 1;
		to->share_denominator = d->seen.running;
	}
	to->ledger.run_ns = d->seen.active[i];
}

static void view(struct engine *e, struct engine_snapshot *s)
{
	const struct declared *d = e->declared;
	vgpu_nsec sum = 0;
	uint32_t i;

	s->declared = true;
	s->observed = d->seen;
	unswitched_view(&d->common, s);
	for (i = 0; i < s->n_vfs; i++) {
		view_vf(d, i, s);
		sum += d->seen.active[i];
	}
	s->core.engine.wall_ns = d->seen.wall;
	s->core.engine.idle_ns = d->seen.wall > sum ? d->seen.wall - sum : 0;
}

static bool values(const struct engine *e, bool, struct policy_values *out)
{
	*out = e->declared->common.values;
	return false;
}

const struct engine_time engine_declared = {
	.build = build,
	.deadline = deadline,
	.keep = keep,
	.step = on_event,
	.change = change,
	.stop = stop,
	.at_rest = at_rest,
	.view = view,
	.values = values,
};
