/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "monitor.h"

struct watched {
	bool judged;	    /* always has work, and does no mischief */
	double weight;	    /* its part in proportional sharing; 0: none */
	double base;	    /* service in ns, at the origin */
	double bound;	    /* of its lag, at the last look */
	double norm, slack; /* service and allowance over weight, at the last look */
	double carried;	    /* the bounds under which it was before the origin */
	vgpu_nsec budget, period, since, next; /* a guarantee: since when, the next deadline */
	double budget_base;
	double bucket; /* fills with service, leaks at the limit's rate */
	vgpu_nsec leaked;
	double bucket_last;
};

struct monitor {
	struct vhost *h;
	bool calm;
	bool running; /* the origin is set: everybody who is judged has work */
	bool changed; /* since then something was changed by an operator */
	const struct vgpu_policy_ops *policy;
	vgpu_nsec origin_after;
	uint64_t last_switch;
	struct monitor_result result;
	struct watched vfs[];
};

struct monitor *monitor_new(struct vhost *h, bool calm)
{
	struct monitor *m = calloc(1, sizeof(*m) + h->n_vfs * sizeof(m->vfs[0]));
	uint32_t i;

	m->h = h;
	m->calm = calm;
	m->origin_after = h->work_from;
	for (i = 0; i < h->n_vfs; i++) {
		const struct vhost_vf *vf = &h->vfs[i];

		/* A command that fails, or a reset of the whole GPU, takes a VF away for a while.
		 */
		m->vfs[i].judged = vf->work == VHOST_ALWAYS && !vf->hang_ppm && !vf->reset_ppm &&
				   !vf->window_ppm && !h->command_fails_ppm && !h->config.gpu_reset;
		m->vfs[i].next = VGPU_NEVER;
	}
	return m;
}

void monitor_free(struct monitor *m)
{
	free(m);
}

void monitor_restarted(struct monitor *m)
{
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++)
		m->vfs[i] = (struct watched){.judged = m->vfs[i].judged, .next = VGPU_NEVER};
	m->running = false;
	m->changed = false;
	m->last_switch = 0;
	m->origin_after = m->h->now;
}

void monitor_result(const struct monitor *m, struct monitor_result *out)
{
	*out = m->result;
}

vgpu_nsec monitor_next(const struct monitor *m)
{
	vgpu_nsec t = VGPU_NEVER;
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++)
		t = m->vfs[i].next < t ? m->vfs[i].next : t;
	return t;
}

static double service(const struct vgpu_vf_view *v)
{
	return (double)(v->ledger.charged_ns + v->pending_ns);
}

/* The parameter that says how much of the excess a VF gets. */
static double weight_of(const struct vgpu_policy_ops *policy, const struct vgpu_vf_view *v)
{
	uint32_t i;

	for (i = 0; policy->vf_params[i].name; i++)
		if (strcmp(policy->vf_params[i].name, "weight") == 0 ||
		    strcmp(policy->vf_params[i].name, "slots") == 0)
			return (double)v->params[i];
	return 1;
}

/* From here on services are compared. */
static void set_origin(struct monitor *m)
{
	struct vgpu_core_view core;
	struct vgpu_vf_view v;
	uint32_t i;

	vgpu_core_view(m->h->core, &core);
	m->policy = core.policy;
	m->running = true;
	for (i = 0; i < m->h->n_vfs; i++) {
		struct watched *w = &m->vfs[i];

		vgpu_core_vf_view(m->h->core, i, &v);
		w->base = service(&v);
		w->weight = 0;
		if (w->judged && v.state == VGPU_VF_ACTIVE && v.has_work &&
		    core.policy->promises & VGPU_PROMISE_PROPORTIONAL && v.bound.budget == 0 &&
		    v.bound.limit_ppm == 0)
			w->weight = weight_of(core.policy, &v);
	}
}

/*
 * How far two VFs that always have work may be apart, in service over weight, is the sum of their
 * bounds over their weights, whatever all others do (the measure of Golestani, INFOCOM '94). Bounds
 * count from equality; after a change they count from where each VF was, and what it was allowed
 * before is still owed.
 *
 * The pair that needs the largest part of its allowance is found without looking at all pairs: one
 * needs more than PART if the two are further apart than that part of both (Dinkelbach, Management
 * Science 13(7), 1967).
 */
static bool needs_more(const struct monitor *m, double *part)
{
	const struct watched *high = NULL, *low = NULL, *w;
	double needed;

	for (w = m->vfs; w < m->vfs + m->h->n_vfs; w++) {
		if (w->weight == 0)
			continue;
		if (!high || w->norm - *part * w->slack > high->norm - *part * high->slack)
			high = w;
		if (!low || w->norm + *part * w->slack < low->norm + *part * low->slack)
			low = w;
	}
	if (!high || high == low)
		return false;
	needed = (high->norm - low->norm) / (high->slack + low->slack);
	if (!(needed > *part))
		return false;
	*part = needed;
	return true;
}

static void judge_lag(struct monitor *m)
{
	double part = m->changed ? 1 : m->result.lag;
	struct vgpu_vf_view v;
	uint32_t i;

	for (i = 0; i < m->h->n_vfs; i++) {
		struct watched *w = &m->vfs[i];

		if (!w->judged)
			continue;
		vgpu_core_vf_view(m->h->core, i, &v);
		w->bound = v.bound.max_lag == VGPU_NEVER ? 0 : (double)v.bound.max_lag;
		if (w->weight == 0)
			continue;
		w->norm = (service(&v) - w->base) / w->weight;
		w->slack = (m->changed ? 2 * w->bound + w->carried : w->bound) / w->weight;
	}
	while (needs_more(m, &part))
		m->result.lag = m->changed ? m->result.lag : part;
	if (part > 1)
		vhost_fail(m->h,
			   "%s: a pair of VFs is %.4f times as far apart as their bounds allow",
			   m->policy->name, part);
}

/* A budget is kept to within a sixteenth of the shortest slice, which is carried over. */
static void judge_budget(struct monitor *m, uint32_t i, const struct vgpu_vf_view *v)
{
	struct watched *w = &m->vfs[i];
	double due, had;

	if (v->bound.budget != w->budget || v->bound.period != w->period || !v->has_work ||
	    v->state != VGPU_VF_ACTIVE || m->changed) {
		w->budget = v->has_work && v->state == VGPU_VF_ACTIVE ? v->bound.budget : 0;
		w->period = v->bound.period;
		w->since = m->h->now;
		w->next = w->budget ? w->since + w->period : VGPU_NEVER;
		/* Switch time laid on it before is charged later, but no part of a budget. */
		w->budget_base = (double)v->ledger.charged_ns;
		return;
	}
	if (w->budget == 0 || m->h->now < w->next)
		return;
	due = (double)w->budget * (double)((w->next - w->since) / w->period);
	had = service(v) - w->budget_base + (double)m->h->config.min_slice / 16 + 1000;
	m->result.deadlines++;
	if (had < due) {
		m->result.missed++;
		if ((vgpu_nsec)(due - had) > m->result.worst_miss)
			m->result.worst_miss = (vgpu_nsec)(due - had);
	}
	w->next += w->period;
}

static void judge_limit(struct monitor *m, uint32_t i, const struct vgpu_vf_view *v)
{
	struct watched *w = &m->vfs[i];
	double used = service(v) - w->bucket_last;

	w->bucket_last = service(v);
	if (v->bound.limit_ppm == 0) {
		w->bucket = 0;
		return;
	}
	w->bucket -= (double)(m->h->now - w->leaked) * v->bound.limit_ppm / 1e6;
	w->bucket = fmax(w->bucket, 0) + used;
	w->leaked = m->h->now;
	/* While it runs, its overrun is not yet in the bound. */
	if (w->bucket > (double)v->bound.burst && !m->changed && !v->on_engine)
		vhost_fail(m->h, "VF %u: %.3f ms beyond its limit, %.3f ms allowed", i,
			   w->bucket / 1e6, (double)v->bound.burst / 1e6);
}

static void judge_wait(struct monitor *m, uint32_t i, const struct vgpu_vf_view *v)
{
	double ratio;

	if (v->bound.max_wait == VGPU_NEVER || v->ledger.wait_max_ns == 0)
		return;
	ratio = (double)v->ledger.wait_max_ns / (double)v->bound.max_wait;
	m->result.wait = fmax(m->result.wait, ratio);
	if (ratio > 1)
		vhost_fail(m->h, "VF %u waited for %.3f ms; the bound is %.3f ms", i,
			   (double)v->ledger.wait_max_ns / 1e6, (double)v->bound.max_wait / 1e6);
}

/* A change of policy takes effect at a switch point, which a record tells. */
static bool is_change(const struct monitor *m, const struct vgpu_event *event)
{
	uint32_t i;

	for (i = 0; i < m->h->out.n_records; i++)
		if (m->h->out.records[i].type == VGPU_REC_POLICY ||
		    m->h->out.records[i].type == VGPU_REC_EVICTED)
			return true;
	return event->type == VGPU_EV_SET_VF || event->type == VGPU_EV_SET_POLICY ||
	       event->type == VGPU_EV_RESET_VF;
}

void monitor_step(struct monitor *m, const struct vgpu_event *event)
{
	struct vgpu_core_view core;
	struct vgpu_vf_view v;
	uint32_t i;

	vgpu_core_view(m->h->core, &core);
	if (!m->running) {
		if (m->h->now > m->origin_after)
			set_origin(m);
	} else if (is_change(m, event)) {
		for (i = 0; i < m->h->n_vfs; i++)
			m->vfs[i].carried += m->vfs[i].bound;
		m->changed = true;
		set_origin(m);
	}
	/* Only an account or a deadline changes anything. */
	if (core.engine.switches == m->last_switch && m->h->now < monitor_next(m) &&
	    event->type != VGPU_EV_BUSY)
		return;
	/* In the middle of a dispatch its overrun is not yet in the bounds. */
	if (m->running && core.engine.switches != m->last_switch)
		judge_lag(m);
	m->last_switch = core.engine.switches;
	for (i = 0; i < m->h->n_vfs; i++) {
		if (!m->vfs[i].judged)
			continue;
		vgpu_core_vf_view(m->h->core, i, &v);
		judge_limit(m, i, &v);
		if (!m->calm)
			continue;
		judge_budget(m, i, &v);
		if (core.policy->promises & VGPU_PROMISE_NO_STARVATION && !m->changed)
			judge_wait(m, i, &v);
	}
}
