/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "govern.h"
#include "judge_governed.h"
#include "peer.h"

/* How often the model's counters are read to find the worst window, ns. */
#define SAMPLE (10 * VGPU_MSEC)
#define SAMPLES_1S 100u
#define SAMPLES_10S 1000u

struct run {
	const struct scenario *s;
	const struct govern_line *line;
	struct govern_result *out;
	struct judge_governed judge;
	struct firmware firmware;
	struct vgpu_governor *governor;
	const struct vgpu_policy_ops *policy;
	void *memory; /* of the policy */
	struct vgpu_program asked;
	vgpu_nsec
		programmed_at; /* when a program will be in force; VGPU_NEVER: none is under way */
	vgpu_nsec issued, sampled;
	vgpu_nsec read_at; /* when the counters are read: the timer may be late */
	size_t next_op;
	uint64_t writes_first, plans_first; /* in the first second */
	double weights[VGPU_GPU_MAX_VFS];
	double samples[SAMPLES_10S + 1][VGPU_GPU_MAX_VFS];
	uint64_t n_samples;
};

static bool refused(struct govern_result *out, const struct vgpu_governor_output *o, int r)
{
	if (r < 0 && !out->violation[0])
		snprintf(out->violation, sizeof(out->violation), "refused: %s",
			 o->why ? o->why : strerror(-r));
	return r < 0;
}

/* Reads what the policy promises to each VF, in any unit. A policy may apply new parameters only in
 * its next round. */
static void look_at_shares(struct run *r)
{
	bool promised = r->policy->promises & VGPU_PROMISE_PROPORTIONAL, changed = false;
	uint64_t numerator, denominator;
	double share;
	uint32_t i;

	for (i = 0; i < r->s->n_vfs; i++) {
		r->policy->share(r->memory, i, &numerator, &denominator);
		share = promised ? (double)numerator / (double)denominator : 0;
		changed = changed || share != r->weights[i];
		r->weights[i] = share;
	}
	if (!changed)
		return;
	judge_governed_change(&r->judge, r->s->n_vfs, promised ? r->weights : NULL);
	r->n_samples = 0;
}

/* Refuses the plan as a GPU does: all of it, or all but some VFs, which have it from now on. */
static int refuse_program(struct run *r)
{
	struct vgpu_program part = r->asked, ignored;
	bool all = random_one_in(&r->firmware.rng, 2);
	uint32_t i;

	part.keep_turns = r->firmware.keep_turns;
	for (i = 0; i < r->s->n_vfs; i++) {
		if (!all && random_one_in(&r->firmware.rng, 2))
			continue;
		part.vfs[i].quantum = r->firmware.vfs[i].quantum;
		part.vfs[i].timeout = r->firmware.vfs[i].timeout;
	}
	firmware_program(&r->firmware, &part, &ignored);
	r->programmed_at = VGPU_NEVER;
	return all ? -EBUSY : -EUCLEAN;
}

static void carry_out(struct run *r, const struct vgpu_governor_output *o)
{
	struct vgpu_governor_event done = {.now = r->firmware.now,
					   .type = VGPU_GOVERNOR_PROGRAMMED};
	struct vgpu_governor_output ignored;

	free(o->retired);
	if (!o->program)
		return;
	r->asked = o->plan;
	if (r->line->fixed)
		return; /* set_by_hand() puts it into force, and no GPU refuses that */
	judge_governed_program(&r->judge, &o->plan,
			       r->issued == VGPU_NEVER ? VGPU_NEVER : r->firmware.now - r->issued);
	r->issued = r->firmware.now;
	r->programmed_at = r->firmware.now;
	if (r->s->run.max)
		r->programmed_at += random_between(&r->firmware.rng, r->s->run.min, r->s->run.max);
	if (r->s->command_fails_ppm &&
	    random_draw(&r->firmware.rng) % 1000000 < r->s->command_fails_ppm) {
		done.error = refuse_program(r);
		vgpu_governor_step(r->governor, &done, &ignored);
	}
}

static int step(struct run *r, struct vgpu_governor_event event)
{
	struct vgpu_governor_output o;
	int e;

	event.now = r->firmware.now;
	e = vgpu_governor_step(r->governor, &event, &o);
	if (refused(r->out, &o, e))
		return e;
	carry_out(r, &o);
	return 0;
}

static void in_force(struct run *r)
{
	struct vgpu_program applied;

	firmware_program(&r->firmware, &r->asked, &applied);
	r->programmed_at = VGPU_NEVER;
	step(r,
	     (struct vgpu_governor_event){.type = VGPU_GOVERNOR_PROGRAMMED, .applied = &applied});
}

static void read_counters(struct run *r)
{
	vgpu_nsec active[VGPU_GPU_MAX_VFS];

	firmware_usage(&r->firmware, active);
	step(r, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_TIMER});
	step(r, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_USAGE, .active = active});
	look_at_shares(r);
	judge_governed_epoch(&r->judge, &r->firmware, r->governor);
	r->read_at = VGPU_NEVER;
}

static double error_over(const struct run *r, uint32_t vf, uint64_t samples)
{
	const double *now = r->samples[r->n_samples % (SAMPLES_10S + 1)];
	const double *then = r->samples[(r->n_samples - samples) % (SAMPLES_10S + 1)];
	double all = 0, weights = 0;
	uint32_t i;

	for (i = 0; i < r->s->n_vfs; i++) {
		if (r->s->vfs[i].work != VHOST_ALWAYS)
			continue;
		all += now[i] - then[i];
		weights += r->weights[i];
	}
	return all > 0 ? fabs((now[vf] - then[vf]) / all - r->weights[vf] / weights) : 0;
}

static void sample(struct run *r)
{
	uint32_t i;

	r->sampled = r->firmware.now;
	r->n_samples++;
	for (i = 0; i < r->s->n_vfs; i++)
		r->samples[r->n_samples % (SAMPLES_10S + 1)][i] = (double)r->firmware.vfs[i].active;
	for (i = 0; i < r->s->n_vfs; i++) {
		if (r->s->vfs[i].work != VHOST_ALWAYS || r->weights[i] <= 0)
			continue;
		if (r->n_samples > SAMPLES_1S + SAMPLES_10S)
			r->out->worst_1s = fmax(r->out->worst_1s, error_over(r, i, SAMPLES_1S));
		if (r->n_samples > SAMPLES_10S)
			r->out->with_start =
				fmax(r->out->with_start, error_over(r, i, SAMPLES_10S));
		if (r->n_samples > 2 * SAMPLES_10S)
			r->out->worst_10s = fmax(r->out->worst_10s, error_over(r, i, SAMPLES_10S));
	}
}

static int rows_of(const struct scenario *s, const struct vgpu_policy_ops *policy, int64_t *rows,
		   struct vgpu_error *err)
{
	uint32_t i;
	int e = 0;

	for (i = 0; i < s->n_vfs && e == 0; i++) {
		vgpu_param_defaults(policy->vf_params, rows + (size_t)i * VGPU_MAX_PARAMS);
		e = settings_apply(&s->vfs[i].params, policy->vf_params, false,
				   rows + (size_t)i * VGPU_MAX_PARAMS, err);
	}
	return e;
}

/* Returns 0, or with the reason -EINVAL: no such policy or parameter; or -EOPNOTSUPP: the governor
 * refuses it. */
static int set_policy(struct run *r, const char *name, const struct settings *params,
		      struct vgpu_error *err)
{
	int64_t values[VGPU_MAX_PARAMS], rows[VGPU_GPU_MAX_VFS * VGPU_MAX_PARAMS];
	const struct vgpu_policy_ops *policy = peer_or_policy(name);
	struct vgpu_governor_event event = {.now = r->firmware.now,
					    .type = VGPU_GOVERNOR_POLICY,
					    .policy = policy,
					    .params = values,
					    .vf_params = rows};
	struct vgpu_governor_output o;
	int e;

	if (!policy)
		return vgpu_error_set(err, -EINVAL, "%s: no such policy", name);
	vgpu_param_defaults(policy->params, values);
	e = settings_apply(params, policy->params, true, values, err);
	if (e == 0)
		e = rows_of(r->s, policy, rows, err);
	if (e < 0)
		return e;
	event.memory = calloc(1, policy->memory(r->s->n_vfs));
	e = vgpu_governor_step(r->governor, &event, &o);
	if (e < 0) {
		free(event.memory);
		return vgpu_error_set(err, -EOPNOTSUPP, "%s", o.why ? o.why : strerror(-e));
	}
	carry_out(r, &o);
	r->policy = policy;
	r->memory = event.memory;
	look_at_shares(r);
	return 0;
}

static void operate(struct run *r, const struct scenario_op *op)
{
	int64_t values[VGPU_MAX_PARAMS];
	struct vgpu_error err;

	if (op->type == OP_POLICY) {
		set_policy(r, op->policy, &op->params, &err);
		return;
	}
	if (op->type == OP_SET) {
		vgpu_param_defaults(r->policy->vf_params, values);
		settings_apply(&op->params, r->policy->vf_params, false, values, &err);
		step(r, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_SET_VF,
						     .vf = op->vf,
						     .params = values});
		look_at_shares(r);
		return;
	}
	vgpu_param_defaults(r->policy->params, values);
	settings_apply(&op->params, r->policy->params, false, values, &err);
	step(r, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_SET_POLICY, .params = values});
	look_at_shares(r);
}

static vgpu_nsec earlier(vgpu_nsec a, vgpu_nsec b)
{
	return a < b ? a : b;
}

/* Returns the next instant at which anything is due. */
static vgpu_nsec next(struct run *r)
{
	vgpu_nsec at = earlier(r->sampled + SAMPLE, r->programmed_at);
	vgpu_nsec deadline = r->line->fixed ? VGPU_NEVER : vgpu_governor_deadline(r->governor);

	if (r->read_at == VGPU_NEVER && deadline != VGPU_NEVER)
		r->read_at = deadline + (r->s->timer_late.max ? random_between(&r->firmware.rng,
									       r->s->timer_late.min,
									       r->s->timer_late.max)
							      : 0);
	if (r->next_op < r->s->n_ops)
		at = earlier(at, r->s->ops[r->next_op].t);
	return earlier(earlier(at, r->read_at), r->s->until);
}

static void run(struct run *r)
{
	struct vgpu_governor_view view;

	while (r->firmware.now < r->s->until && !r->out->violation[0]) {
		firmware_advance(&r->firmware, next(r));
		if (r->firmware.now >= r->programmed_at)
			in_force(r);
		if (r->firmware.now >= r->read_at)
			read_counters(r);
		if (r->firmware.now >= r->sampled + SAMPLE)
			sample(r);
		while (r->next_op < r->s->n_ops && r->s->ops[r->next_op].t <= r->firmware.now)
			operate(r, &r->s->ops[r->next_op++]);
		if (r->firmware.now <= VGPU_SEC) {
			vgpu_governor_view(r->governor, &view);
			r->writes_first = view.writes;
			r->plans_first = view.plans;
		}
	}
}

static void conclude(struct run *r)
{
	struct govern_result *out = r->out;
	double seconds = (double)r->firmware.now / 1e9 - 1, all = 0;
	struct vgpu_governor_view view;
	uint32_t i;

	vgpu_governor_view(r->governor, &view);
	out->epochs = view.epochs;
	out->discarded = view.unread > 0;
	out->still = view.mode == VGPU_GOVERNOR_STILL;
	if (view.mode == VGPU_GOVERNOR_FAULTY && !out->violation[0])
		snprintf(out->violation, sizeof(out->violation),
			 "the governor says that policy %s broke its contract", view.policy->name);
	if (seconds > 0) {
		out->writes_per_s = (double)(view.writes - r->writes_first) / seconds;
		out->plans_per_s = (double)(view.plans - r->plans_first) / seconds;
	}
	for (i = 0; i < r->s->n_vfs; i++) {
		out->resets += r->firmware.vfs[i].resets;
		all += (double)r->firmware.vfs[i].active;
	}
	for (i = 0; i < r->s->n_vfs; i++) {
		out->shares[i] = all > 0 ? (double)r->firmware.vfs[i].active / all : 0;
		vgpu_governor_vf_view(r->governor, i, &out->vfs[i]);
	}
}

/* Sets the firmware up as an operator would: quanta as the scenario has them, or the nominal plan;
 * in force from the start. */
static void set_by_hand(struct run *r)
{
	uint32_t i;

	for (i = 0; i < r->s->n_vfs; i++)
		if (r->s->vfs[i].quantum.max)
			r->asked.vfs[i].quantum = r->s->vfs[i].quantum.max;
	in_force(r);
}

static int set_up(struct run *r, struct vgpu_error *err)
{
	const struct scenario_governed *from = &r->s->governed;
	struct vgpu_governor_config config;
	struct vgpu_program found;
	int e;

	firmware_init(&r->firmware, r->s);
	vgpu_governor_defaults(&config, r->s->n_vfs, r->firmware.quantum, r->firmware.timeout);
	config.keeps_turns = true;
	config.epoch = r->line->epoch ? r->line->epoch : from->epoch;
	config.rotation = from->rotation;
	config.turn = from->turn;
	config.stop = from->stop;
	config.slack = from->slack;
	config.settle = from->settle > config.epoch ? from->settle : config.epoch;
	config.switch_ns = from->switch_ns;
	config.tolerance_ppm = from->tolerance_ppm;
	r->asked = (struct vgpu_program){.keep_turns = false};
	firmware_program(&r->firmware, &r->asked, &found);
	r->governor = vgpu_governor_init(calloc(1, vgpu_governor_size()), &config, &found, 0);
	if (!r->governor)
		return vgpu_error_set(err, -EINVAL,
				      "governed: the rotation has to hold a step for each VF, at "
				      "most 8192 steps, and the epoch at least 1 ms");
	r->programmed_at = VGPU_NEVER;
	r->read_at = VGPU_NEVER;
	e = set_policy(r, r->s->policy, &r->s->params, err);
	if (e < 0)
		return e;
	r->issued = VGPU_NEVER;
	return step(r, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
}

/* Returns why S cannot be governed, or NULL. */
static const char *unfit(const struct scenario *s)
{
	uint32_t i;

	if (!s->governed.on)
		return "this scenario has no governed GPU: add a line governed";
	if (s->n_vfs > VGPU_GPU_MAX_VFS || s->n_gpus != 1)
		return "a governed GPU is one GPU, of at most 31 VFs";
	if (s->governed.step == 0)
		return "governed: step must be above 0";
	for (i = 0; i < s->n_vfs; i++)
		if (s->vfs[i].work != VHOST_ALWAYS && s->vfs[i].work != VHOST_BURSTS &&
		    s->vfs[i].work != VHOST_PERIODIC && s->vfs[i].work != VHOST_NEVER)
			return "on a governed GPU, VFs have work=always, bursts, periodic or never";
	for (i = 0; i < s->n_ops; i++)
		if (s->ops[i].type != OP_POLICY && s->ops[i].type != OP_SET &&
		    s->ops[i].type != OP_SET_POLICY)
			return "on a governed GPU, operators change the policy and parameters only";
	return NULL;
}

int govern_run(const struct scenario *s, const struct govern_line *line, struct govern_result *out,
	       struct vgpu_error *err)
{
	const char *why = unfit(s);
	struct run *r;
	int e;

	if (why)
		return vgpu_error_set(err, -EINVAL, "%s", why);
	*out = (struct govern_result){.worst_1s = -1, .worst_10s = -1, .with_start = -1};
	r = calloc(1, sizeof(*r));
	r->s = s;
	r->line = line;
	r->out = out;
	r->judge = (struct judge_governed){.scenario = s,
					   .result = out,
					   .epoch = line->epoch ? line->epoch : s->governed.epoch};
	e = set_up(r, err);
	if (e == 0) {
		if (line->fixed)
			set_by_hand(r);
		run(r);
		conclude(r);
	}
	free(r->memory);
	free(r->governor);
	free(r);
	return e;
}
