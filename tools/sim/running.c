/* SPDX-License-Identifier: MIT */
/* Runs scenarios: placement on GPUs, and the virtual host of one GPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "scenario.h"

static uint64_t memory_of(const struct scenario_vf *vf)
{
	uint64_t bytes = 0;
	size_t k;

	for (k = 0; k < vf->n_items; k++)
		if (vf->items[k].kind == VHOST_MEM)
			bytes += vf->items[k].value;
	return bytes;
}

/* Returns the engine time, ns, that a tenant asks for in S; the whole length of S if the tenant
 * never stops. */
static double demand_of(const struct scenario *s, const struct scenario_vf *vf)
{
	double work = 0;
	size_t k;

	if (vf->work == VHOST_ALWAYS || vf->work == VHOST_SLEEPER)
		return (double)s->until;
	if (vf->work == VHOST_BURSTS)
		return (double)s->until * (double)(vf->burst.min + vf->burst.max) /
		       ((double)(vf->burst.min + vf->burst.max + vf->think.min + vf->think.max) +
			1);
	if (vf->work == VHOST_PERIODIC)
		return (double)s->until * (double)(vf->burst.min + vf->burst.max) /
		       (double)(vf->period.min + vf->period.max);
	for (k = 0; k < vf->n_items; k++)
		if (vf->items[k].kind == VHOST_WORK || vf->items[k].kind == VHOST_PREP)
			work += (double)vf->items[k].value;
	return work;
}

int scenario_place(struct scenario *s, struct vgpu_error *err)
{
	uint64_t used[SCENARIO_MAX_GPUS] = {0};
	double load[SCENARIO_MAX_GPUS] = {0};
	uint32_t i, g, best;

	for (i = 0; i < s->n_vfs; i++) {
		uint64_t bytes = memory_of(&s->vfs[i]);

		best = VGPU_NO_VF;
		for (g = 0; g < s->n_gpus; g++) {
			uint32_t at = s->placement == PLACE_ROUND_ROBIN ? (i + g) % s->n_gpus : g;

			if (s->memory && used[at] + bytes > s->memory)
				continue;
			if (best == VGPU_NO_VF ||
			    (s->placement == PLACE_LEAST_LOADED && load[at] < load[best]))
				best = at;
		}
		if (best == VGPU_NO_VF)
			return vgpu_error_set(err, -ENOSPC,
					      "VF %u: no GPU has %llu bytes of memory left", i,
					      (unsigned long long)bytes);
		s->vfs[i].gpu = best;
		used[best] += bytes;
		load[best] += demand_of(s, &s->vfs[i]);
	}
	return 0;
}

/* Sets the workload of VF I, with parameters resolved. Returns 0, or -EINVAL with the reason. */
static int resolve_items(struct running *r, uint32_t i, const struct scenario_vf *from,
			 const struct vgpu_policy_ops *policy, struct vgpu_error *err)
{
	struct vhost_vf *vf = &r->host.vfs[i];
	struct vhost_item *items = calloc(from->n_items ? from->n_items : 1, sizeof(*items));
	size_t k;
	int e;

	r->items[i] = items;
	for (k = 0; k < from->n_items; k++) {
		int64_t *values = NULL;

		if (from->items[k].kind == VHOST_PARAM) {
			values = calloc(VGPU_MAX_PARAMS, sizeof(*values));
			vgpu_param_defaults(policy->vf_params, values);
			e = settings_apply(&from->params, policy->vf_params, false, values, err);
			if (e == 0)
				e = settings_apply(&from->items[k].params, policy->vf_params, false,
						   values, err);
			if (e < 0) {
				free(values);
				return e;
			}
		}
		items[k] = (struct vhost_item){.t = from->items[k].t,
					       .kind = from->items[k].kind,
					       .value = from->items[k].value,
					       .params = values,
					       .table = policy->vf_params};
	}
	vf->items = items;
	vf->n_items = from->n_items;
	vf->stays_down = from->n_items && from->items[0].kind == VHOST_ARRIVE;
	return 0;
}

static void set_up_vf(struct vhost_vf *vf, const struct scenario_vf *from)
{
	vf->work = from->work;
	vf->burst = from->burst;
	vf->think = from->think;
	vf->period = from->period;
	vf->late = from->late;
	vf->late_span = from->late_span;
	vf->save = from->save;
	vf->rare = from->rare;
	vf->window = from->window;
	vf->rare_ppm = from->rare_ppm;
	vf->hang_ppm = from->hang_ppm;
	vf->reset_ppm = from->reset_ppm;
	vf->window_ppm = from->window_ppm;
}

static void set_up_host(struct vhost *h, const struct scenario *s)
{
	h->load = s->load;
	h->run = s->run;
	h->init = s->init;
	h->window = s->window;
	h->scrub = s->scrub;
	h->reset = s->reset;
	h->timer_late = s->timer_late;
	h->command_fails_ppm = s->command_fails_ppm;
	h->reset_fails_ppm = s->reset_fails_ppm;
	h->config.gpu_reset = s->gpu_reset;
	h->config.min_slice = s->min_slice;
	h->config.min_run = s->min_run ? s->min_run : s->min_slice;
	h->config.ask_at_end = s->ask_at_end;
	h->config.chains = s->chains;
	h->refuse_windows_end = s->windows_stick;
	h->work_from = s->work_from;
}

/* Writes the VFs' parameters under a policy; settings that the policy lacks are ignored. Returns 0,
 * or -EINVAL with the reason. */
static int rows_of(const struct running *r, const struct vgpu_policy_ops *policy, int64_t *rows,
		   struct vgpu_error *err)
{
	uint32_t i;
	int e = 0;

	for (i = 0; i < r->host.n_vfs && e == 0; i++) {
		int64_t *row = rows + (size_t)i * VGPU_MAX_PARAMS;

		vgpu_param_defaults(policy->vf_params, row);
		e = settings_apply(&r->scenario->vfs[r->vfs[i]].params, policy->vf_params, false,
				   row, err);
	}
	return e;
}

int running_start(struct running *r, const struct scenario *s, uint32_t gpu,
		  const struct vgpu_policy_ops *policy, bool checked, enum vhost_memory_kind memory,
		  const struct vgpu_policy_ops *(*find)(const char *name), struct vgpu_error *err)
{
	int64_t params[VGPU_MAX_PARAMS], *rows;
	vgpu_nsec save = 0;
	uint32_t i, n = 0;
	int e;

	*r = (struct running){.scenario = s, .find = find};
	if (s->governed.on)
		return vgpu_error_set(err, -EINVAL,
				      "vgpud does not switch this scenario's GPU, its firmware "
				      "does: run it with vgpu-sim govern or compare");
	policy = policy ? policy : find(s->policy);
	if (!policy)
		return vgpu_error_set(err, -EINVAL, "%s: no such policy", s->policy);
	r->vfs = calloc(s->n_vfs, sizeof(*r->vfs));
	for (i = 0; i < s->n_vfs; i++)
		if (s->vfs[i].gpu == gpu)
			r->vfs[n++] = i;
	vhost_init(&r->host, n ? n : 1, s->seed + gpu);
	set_up_host(&r->host, s);
	r->host.unchecked = !checked;
	r->host.memory = memory;
	r->items = calloc(n ? n : 1, sizeof(*r->items));
	rows = calloc((size_t)(n ? n : 1) * VGPU_MAX_PARAMS, sizeof(*rows));
	for (i = 0, e = 0; i < n && e == 0; i++) {
		set_up_vf(&r->host.vfs[i], &s->vfs[r->vfs[i]]);
		if (s->vfs[r->vfs[i]].save.max > save)
			save = s->vfs[r->vfs[i]].save.max;
		e = resolve_items(r, i, &s->vfs[r->vfs[i]], policy, err);
	}
	/* The longest world switch, as an operator would have measured it. */
	r->host.config.switch_nominal = s->load.max + s->run.max + save;
	if (n == 0)
		r->host.vfs[0].work = VHOST_NEVER;
	r->policy = checked ? vhost_checked(policy, &r->host) : policy;
	vgpu_param_defaults(policy->params, params);
	if (e == 0)
		e = settings_apply(&s->params, policy->params, false, params, err);
	if (e == 0)
		e = rows_of(r, policy, rows, err);
	if (e == 0)
		vhost_start(&r->host, r->policy, params, (const int64_t(*)[VGPU_MAX_PARAMS])rows);
	free(rows);
	if (e < 0)
		running_finish(r);
	return e;
}

/* Restarts vgpud as configured: live changes are forgotten. */
static void restart(struct running *r)
{
	int64_t params[VGPU_MAX_PARAMS];
	int64_t *rows = calloc((size_t)r->host.n_vfs * VGPU_MAX_PARAMS, sizeof(*rows));

	vgpu_param_defaults(r->policy->params, params);
	settings_apply(&r->scenario->params, r->policy->params, false, params, NULL);
	rows_of(r, r->policy, rows, NULL);
	vhost_restart(&r->host, r->policy, params, (const int64_t(*)[VGPU_MAX_PARAMS])rows);
	free(rows);
}

static void operate(struct running *r, const struct scenario_op *op)
{
	const struct vgpu_policy_ops *policy = vhost_policy(&r->host);
	int64_t values[VGPU_MAX_PARAMS], *rows;
	uint32_t vf;

	for (vf = 0; vf < r->host.n_vfs && r->vfs[vf] != op->vf; vf++)
		;
	switch (op->type) {
	case OP_POLICY:
		policy = r->find(op->policy);
		if (!policy)
			return;
		rows = calloc((size_t)r->host.n_vfs * VGPU_MAX_PARAMS, sizeof(*rows));
		vgpu_param_defaults(policy->params, values);
		if (settings_apply(&op->params, policy->params, false, values, NULL) == 0 &&
		    rows_of(r, policy, rows, NULL) == 0)
			vhost_change_policy(&r->host, policy, values,
					    (const int64_t(*)[VGPU_MAX_PARAMS])rows);
		free(rows);
		return;
	case OP_SET_POLICY:
		vgpu_param_defaults(policy->params, values);
		if (settings_apply(&op->params, policy->params, false, values, NULL) == 0)
			vhost_event(&r->host, &(struct vgpu_event){.type = VGPU_EV_SET_POLICY,
								   .params = values});
		return;
	case OP_SET:
		vgpu_param_defaults(policy->vf_params, values);
		if (vf < r->host.n_vfs &&
		    settings_apply(&op->params, policy->vf_params, false, values, NULL) == 0)
			vhost_event(&r->host, &(struct vgpu_event){.type = VGPU_EV_SET_VF,
								   .vf = vf,
								   .params = values});
		return;
	case OP_RESET:
		if (vf < r->host.n_vfs)
			vhost_event(&r->host,
				    &(struct vgpu_event){.type = VGPU_EV_RESET_VF, .vf = vf});
		return;
	case OP_RESTART:
		restart(r);
		return;
	case OP_COMES:
		if (vf < r->host.n_vfs)
			vhost_comes(&r->host, vf);
		return;
	case OP_RESUMES:
		if (vf < r->host.n_vfs)
			vhost_resumes(&r->host, vf, (int64_t)op->owed);
		return;
	}
}

void running_run(struct running *r, vgpu_nsec until)
{
	const struct scenario *s = r->scenario;

	while (r->next_op < s->n_ops && s->ops[r->next_op].t <= until) {
		vhost_run(&r->host, s->ops[r->next_op].t);
		if (!vhost_goes_on(&r->host))
			return;
		operate(r, &s->ops[r->next_op++]);
	}
	vhost_run(&r->host, until);
}

uint32_t running_refused(const struct running *r)
{
	uint32_t i, n = 0;

	for (i = 0; i < r->host.n_vfs; i++)
		n += r->host.vfs[i].refused != NULL;
	return n;
}

vgpu_nsec running_switched(const struct running *r)
{
	struct vgpu_core_view core;
	struct vgpu_vf_view vf;
	vgpu_nsec sum;
	uint32_t i;

	vgpu_core_view(r->host.core, &core);
	sum = core.engine.switch_ns;
	for (i = 0; i < r->host.n_vfs; i++) {
		vgpu_core_vf_view(r->host.core, i, &vf);
		sum += vf.ledger.switch_ns;
	}
	return sum;
}

void running_finish(struct running *r)
{
	uint32_t i;
	size_t k;

	for (i = 0; r->items && i < r->host.n_vfs; i++) {
		for (k = 0; r->items[i] && k < r->host.vfs[i].n_items; k++)
			free((void *)(uintptr_t)r->items[i][k].params);
		free(r->items[i]);
	}
	free(r->items);
	free(r->vfs);
	if (r->host.vfs)
		vhost_finish(&r->host);
}
