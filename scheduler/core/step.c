/* SPDX-License-Identifier: MIT */
/*
 * Turns events into actions. Everything that changes the core comes through vgpu_core_step() and
 * its table of handlers.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "private.h"

void vgpu_core_defaults(struct vgpu_core_config *config, uint32_t max_vfs)
{
	*config = (struct vgpu_core_config){
		.max_vfs = max_vfs,
		.reset_levels = 1u << VGPU_RESET_VF | 1u << VGPU_RESET_GPU,
		.min_slice = 500 * VGPU_USEC,  /* AMD's least slice in hybrid mode */
		.max_slice = 500 * VGPU_MSEC,  /* AMD's largest settable slice */
		.grace = 50 * VGPU_MSEC,       /* between Intel's 16..128 ms, a tenth of AMD's */
		.idle_grace = 100 * VGPU_USEC, /* AMD's busy check interval */
		.lone_slice = 500 * VGPU_MSEC, /* AMD's self-switch of a lone VF */
		.min_run = 500 * VGPU_USEC,
		.window_max = VGPU_SEC, /* below the 2 s after which Windows guests give up */
		.debt_cap = 100 * VGPU_MSEC,
		.command_timeout =
			{
				[VGPU_CMD_SAVE] = 500 * VGPU_MSEC, /* AMD's, for all of these */
				[VGPU_CMD_LOAD] = 500 * VGPU_MSEC,
				[VGPU_CMD_INIT] = 3 * VGPU_SEC,
				[VGPU_CMD_RUN] = 500 * VGPU_MSEC,
				[VGPU_CMD_SHUTDOWN] = 500 * VGPU_MSEC,
			},
		.reset_timeout =
			{
				[VGPU_RESET_ENGINE] = 100 * VGPU_MSEC,
				[VGPU_RESET_VF] = 500 * VGPU_MSEC,
				[VGPU_RESET_GPU] = 10 * VGPU_SEC,
			},
		.switch_nominal = 100 * VGPU_USEC,
	};
}

size_t vgpu_core_size(uint32_t max_vfs)
{
	size_t per_vf = sizeof(struct vf) + (2 * VGPU_MAX_PARAMS + 1) * sizeof(int64_t);

	return sizeof(struct vgpu_core) + per_vf * max_vfs;
}

struct vgpu_core *vgpu_core_init(void *memory, const struct vgpu_core_config *config,
				 const struct vgpu_policy_ops *fallback, void *fallback_memory,
				 vgpu_nsec now)
{
	struct vgpu_core *core = memory;
	uint32_t i;

	core->config = *config;
	core->facts = (struct vgpu_facts){
		.max_vfs = config->max_vfs,
		.switch_ns = config->switch_nominal,
		.min_slice_ns = config->min_slice,
		.max_slice_ns = config->max_slice,
		.switch_high_ns = config->switch_nominal,
		.min_run_ns = config->min_run,
		.grace_ns = config->grace,
		.window_ns = config->window_max,
	};
	core->now = now;
	core->resident = VGPU_NO_VF;
	core->target = VGPU_NO_VF;
	core->window_head = VGPU_NO_VF;
	core->window_tail = VGPU_NO_VF;
	core->phase_deadline = VGPU_NEVER;
	core->aux_deadline = VGPU_NEVER;
	core->window_deadline = VGPU_NEVER;
	core->d.vf = VGPU_NO_VF;
	core->d.early = VGPU_NO_VF;
	core->vf_params = (int64_t *)&core->vfs[config->max_vfs];
	core->next_vf_params = core->vf_params + (size_t)config->max_vfs * VGPU_MAX_PARAMS;
	core->lags = core->next_vf_params + (size_t)config->max_vfs * VGPU_MAX_PARAMS;
	for (i = 0; i < config->max_vfs; i++) {
		core->vfs[i].reset.retry_at = VGPU_NEVER;
		core->vfs[i].waiting_since = VGPU_NEVER;
		core->vfs[i].stops[2] = VGPU_NEVER;
		core->vfs[i].stops[4] = VGPU_NEVER;
	}
	core->fallback = fallback;
	core->fallback_memory = fallback_memory;
	core->policy = fallback;
	core->memory = fallback_memory;
	for (i = 0; fallback->params[i].name; i++)
		core->params[i] = fallback->params[i].def;
	fallback->attach(fallback_memory, &core->facts, core->params);
	return core;
}

static int on_timer(struct vgpu_core *core, const struct vgpu_event *)
{
	ladder_timer(core);
	window_timer(core);
	switch_timer(core);
	return 0;
}

static int on_done(struct vgpu_core *core, const struct vgpu_event *event)
{
	if (event->code >= VGPU_CMD_COUNT) {
		core->out->why = "no such command";
		return -EINVAL;
	}
	switch_done(core, event->vf, (enum vgpu_command)event->code, event->value);
	return 0;
}

static int on_reset_done(struct vgpu_core *core, const struct vgpu_event *event)
{
	ladder_reset_done(core, event->vf, event->code, event->value);
	return 0;
}

static int on_scrubbed(struct vgpu_core *core, const struct vgpu_event *event)
{
	ladder_scrubbed(core, event->vf, event->value);
	return 0;
}

static int on_busy(struct vgpu_core *core, const struct vgpu_event *event)
{
	core->vfs[event->vf].busy = true;
	if (core->d.open && core->d.vf == event->vf && !core->vfs[event->vf].held)
		core->d.yield_at = VGPU_NEVER;
	policy_host_sync(core, event->vf);
	return 0;
}

static int on_empty(struct vgpu_core *core, const struct vgpu_event *event)
{
	struct dispatch *d = &core->d;

	core->vfs[event->vf].busy = false;
	policy_host_drained(core, event->vf);
	if (d->open && d->vf == event->vf && core->phase == VGPU_PHASE_RUN &&
	    !(d->flags & VGPU_PICK_HOLD) && d->yield_at == VGPU_NEVER)
		d->yield_at = nsec_add(core->now, d->idle_grace);
	policy_host_sync(core, event->vf);
	return 0;
}

static int on_request(struct vgpu_core *core, const struct vgpu_event *event)
{
	if (event->code >= VGPU_WINDOW_COUNT) {
		core->out->why = "no such window";
		return -EINVAL;
	}
	guest_request(core, event->vf, (enum vgpu_window)event->code);
	return 0;
}

static int on_release(struct vgpu_core *core, const struct vgpu_event *event)
{
	guest_release(core, event->vf, (enum vgpu_window)event->code);
	return 0;
}

static int on_guest_reset(struct vgpu_core *core, const struct vgpu_event *event)
{
	guest_reset(core, event->vf);
	return 0;
}

static int on_hang(struct vgpu_core *core, const struct vgpu_event *event)
{
	ladder_fault(core, event->vf, event->code);
	return 0;
}

static int on_add(struct vgpu_core *core, const struct vgpu_event *event)
{
	struct vf *vf = core_vf(core, event->vf);
	enum vgpu_context context = (enum vgpu_context)event->code;
	int r;

	if (!vf || event->code >= VGPU_CTX_COUNT) {
		core->out->why = "no such VF";
		return -EINVAL;
	}
	if (vf->state != VGPU_VF_ABSENT) {
		core->out->why = "the VF is configured already";
		return -EINVAL;
	}
	r = policy_host_add(core, event);
	if (r < 0)
		return r;
	vf->context = context;
	if (context == VGPU_CTX_NONE) {
		ladder_scrub(core, event->vf);
		return 0;
	}
	core_set_state(core, event->vf, VGPU_VF_ACTIVE);
	if (context != VGPU_CTX_SAVED && context != VGPU_CTX_BROKEN)
		core->resident = event->vf;
	if (event->value == 0 || context == VGPU_CTX_BROKEN) {
		/* It was in a window, or its context is broken: its driver must start again. */
		ladder_reset(core, event->vf, VGPU_BLAME_NONE);
		return 0;
	}
	policy_host_online(core, event->vf, true);
	return 0;
}

static int on_set_vf(struct vgpu_core *core, const struct vgpu_event *event)
{
	return policy_host_set_vf(core, event);
}

static int on_set_policy(struct vgpu_core *core, const struct vgpu_event *event)
{
	return policy_host_set_policy(core, event);
}

static int on_policy(struct vgpu_core *core, const struct vgpu_event *event)
{
	return policy_host_begin_change(core, event);
}

static int on_reset_vf(struct vgpu_core *core, const struct vgpu_event *event)
{
	core->vfs[event->vf].want_init = false;
	ladder_forgive(&core->vfs[event->vf]);
	ladder_reset(core, event->vf, VGPU_BLAME_NONE);
	return 0;
}

static int on_start(struct vgpu_core *core, const struct vgpu_event *)
{
	if (core->started)
		return 0;
	core->started = true;
	core->notes.go_on = core->phase == VGPU_PHASE_PARKED;
	return 0;
}

static int on_stop(struct vgpu_core *core, const struct vgpu_event *)
{
	core->started = false;
	return 0;
}

/* Lets a VF that was held or out use the engine again, if it is neither any more. */
static void come_back(struct vgpu_core *core, uint32_t index)
{
	struct vf *vf = &core->vfs[index];

	if (vf->held || vf_is_out(vf))
		return;
	if (vf->state == VGPU_VF_ACTIVE) {
		policy_host_online(core, index, true);
		policy_host_sync(core, index);
	} else if (vf->queued) {
		core->notes.wanted = true;
	}
}

/* Returns whether the VF is being loaded. */
static bool comes(const struct vgpu_core *core, uint32_t index)
{
	return core->resident != index &&
	       (core->target == index || (core->d.open && core->d.vf == index));
}

/* Sets REASON, one of the flags that prevent loading. */
static int put_out(struct vgpu_core *core, uint32_t index, bool *reason)
{
	if (core->resident == index || comes(core, index)) {
		core->out->why = "the VF is on the engine, or on its way there";
		return -EBUSY;
	}
	*reason = true;
	policy_host_online(core, index, false);
	return 0;
}

static int on_away(struct vgpu_core *core, const struct vgpu_event *event)
{
	struct vf *vf = &core->vfs[event->vf];
	int r;

	if (event->code != 0) {
		r = put_out(core, event->vf, &vf->away);
		vf->held &= r < 0;
		return r;
	}
	if (!vf->away)
		return 0;
	vf->away = false;
	vf->held = false;
	come_back(core, event->vf);
	return 0;
}

static int on_incoming(struct vgpu_core *core, const struct vgpu_event *event)
{
	struct vf *vf = &core->vfs[event->vf];

	if (event->code != 0)
		return put_out(core, event->vf, &vf->incoming);
	if (!vf->incoming)
		return 0;
	vf->incoming = false;
	if (event->value > 0)
		ledger_bring(core, vf, (vgpu_nsec)event->value);
	come_back(core, event->vf);
	return 0;
}

static int on_hold(struct vgpu_core *core, const struct vgpu_event *event)
{
	struct vf *vf = &core->vfs[event->vf];
	struct dispatch *d = &core->d;

	if (event->code == 0) {
		if (vf->held) {
			vf->held = false;
			come_back(core, event->vf);
		}
		return 0;
	}
	if (vf->state != VGPU_VF_ACTIVE || !vf->online) {
		core->out->why = "the VF's driver is not up";
		return -EBUSY;
	}
	vf->held = true;
	if (!d->open || d->vf != event->vf)
		policy_host_online(core, event->vf, false);
	else if (core->phase == VGPU_PHASE_RUN)
		d->yield_at = core->now; /* if it is not running yet, dispatch_begin() does this */
	return 0;
}

static int on_condemn(struct vgpu_core *core, const struct vgpu_event *event)
{
	return policy_host_condemn(core, event->code);
}

/* The GPU has blocked the access; this only counts it. */
static int on_violation(struct vgpu_core *core, const struct vgpu_event *event)
{
	core->vfs[event->vf].ledger.violations++;
	core_record(core, VGPU_REC_VIOLATION, event->vf, event->code, 0, 0);
	return 0;
}

/* The subject that an event must name. */
enum subject {
	NOBODY = 0,
	A_VF,	/* a VF that is configured */
	ANSWER, /* the same, for an answer of the device: a stale one is counted */
};

/* The handlers of events. */
static const struct handler {
	int (*handle)(struct vgpu_core *core, const struct vgpu_event *event);
	enum subject subject;
} handlers[VGPU_EV_COUNT] = {
	[VGPU_EV_TIMER] = {on_timer, NOBODY},
	[VGPU_EV_DONE] = {on_done, ANSWER},
	[VGPU_EV_RESET_DONE] = {on_reset_done, ANSWER},
	[VGPU_EV_SCRUBBED] = {on_scrubbed, ANSWER},
	[VGPU_EV_BUSY] = {on_busy, A_VF},
	[VGPU_EV_EMPTY] = {on_empty, A_VF},
	[VGPU_EV_REQUEST] = {on_request, A_VF},
	[VGPU_EV_RELEASE] = {on_release, A_VF},
	[VGPU_EV_GUEST_RESET] = {on_guest_reset, A_VF},
	[VGPU_EV_HANG] = {on_hang, A_VF},
	[VGPU_EV_ADD] = {on_add, NOBODY},
	[VGPU_EV_SET_VF] = {on_set_vf, A_VF},
	[VGPU_EV_SET_POLICY] = {on_set_policy, NOBODY},
	[VGPU_EV_POLICY] = {on_policy, NOBODY},
	[VGPU_EV_RESET_VF] = {on_reset_vf, A_VF},
	[VGPU_EV_START] = {on_start, NOBODY},
	[VGPU_EV_STOP] = {on_stop, NOBODY},
	[VGPU_EV_CONDEMN] = {on_condemn, NOBODY},
	[VGPU_EV_HOLD] = {on_hold, A_VF},
	[VGPU_EV_AWAY] = {on_away, A_VF},
	[VGPU_EV_VIOLATION] = {on_violation, A_VF},
	[VGPU_EV_INCOMING] = {on_incoming, A_VF},
};

static bool is_configured(struct vgpu_core *core, uint32_t index)
{
	const struct vf *vf = core_vf(core, index);

	return vf && vf->state != VGPU_VF_ABSENT;
}

int vgpu_core_step(struct vgpu_core *core, const struct vgpu_event *event, struct vgpu_output *out)
{
	const struct handler *handler = &handlers[event->type];
	int r;

	assert(event->type < VGPU_EV_COUNT);
	out->n_actions = 0;
	out->n_records = 0;
	out->why = NULL;
	core->out = out;
	core->notes = (struct notes){.waker = VGPU_NO_VF};
	ledger_advance(core, event->now);
	if (handler->subject != NOBODY && !is_configured(core, event->vf)) {
		core->ledger.stale_answers += handler->subject == ANSWER;
		out->why = "no such VF";
		return -EINVAL;
	}
	r = handler->handle(core, event);
	switch_settle(core);
	return r;
}

vgpu_nsec vgpu_core_deadline(const struct vgpu_core *core)
{
	vgpu_nsec deadline = core->phase_deadline;

	if (core->phase == VGPU_PHASE_RUN && core->in_window)
		deadline = core->window_end;
	else if (core->phase == VGPU_PHASE_RUN)
		deadline = nsec_min(core->d.preempt_at, core->d.yield_at);
	if (!core->started && !core->in_window &&
	    (core->phase == VGPU_PHASE_RUN || core->phase == VGPU_PHASE_PARKED))
		deadline = VGPU_NEVER;
	return nsec_min(deadline, nsec_min(core->aux_deadline, core->window_deadline));
}

bool vgpu_core_is_overdue(const struct vgpu_core *core, vgpu_nsec now)
{
	if (now >= core->aux_deadline)
		return true;
	switch (core->phase) {
	case VGPU_PHASE_PARKED: /* this deadline and READY's are planned instants, not time-outs */
	case VGPU_PHASE_READY:
		return false;
	case VGPU_PHASE_RUN:
		return core->in_window && now >= core->window_end;
	default:
		return now >= core->phase_deadline;
	}
}

/* The simulator takes views after every step: fields without a meaning are not cleared, for speed.
 */
void vgpu_core_view(const struct vgpu_core *core, struct vgpu_core_view *out)
{
	out->started = core->started;
	out->current = core->resident;
	out->phase = core->phase;
	out->policy = core->policy;
	out->next_policy = core->next_policy;
	out->fallback = core->fallback;
	out->last_fault = core->last_fault;
	out->facts = core->facts;
	out->engine = core->ledger;
	memcpy(out->faulty, core->faulty, sizeof(out->faulty));
	memcpy(out->params, core->params, sizeof(out->params));
	if (core->next_policy)
		memcpy(out->next_params, core->next_params, sizeof(out->next_params));
}

void vgpu_core_vf_brief(const struct vgpu_core *core, uint32_t index, struct vgpu_vf_view *out)
{
	const struct vf *vf = &core->vfs[index];
	vgpu_nsec lapses = ledger_lapses(core, vf);

	out->state = vf->state;
	out->context = vf->context;
	out->has_work = vf->busy;
	out->admitted = vf->admitted;
	out->on_engine = core->resident == index;
	out->comes = comes(core, index);
	out->held = vf->held;
	out->away = vf->away;
	out->incoming = vf->incoming;
	out->backoff_until = vf->state == VGPU_VF_BACKOFF ? vf->backoff_until : 0;
	out->ledger = vf->ledger;
	out->ledger.debt_ns -= lapses;
	out->ledger.debt_lapsed_ns += lapses;
	out->ledger.wait_max_ns = nsec_max(vf->ledger.wait_max_ns, ledger_waits(core, vf));
	out->pending_ns = vf->open_run + vf->surcharge;
	out->written_off_ns = vf->written_off;
}

void vgpu_core_vf_view(const struct vgpu_core *core, uint32_t index, struct vgpu_vf_view *out)
{
	size_t row = (size_t)index * VGPU_MAX_PARAMS;

	vgpu_core_vf_brief(core, index, out);
	out->share_numerator = 0;
	out->share_denominator = 0;
	out->bound = (struct vgpu_bound){0};
	out->lag_ns = 0;
	if (!out->admitted) {
		memset(out->params, 0, sizeof(out->params));
		memset(out->next_params, 0, sizeof(out->next_params));
		return;
	}
	memcpy(out->params, core->vf_params + row, sizeof(out->params));
	if (core->next_policy)
		memcpy(out->next_params, core->next_vf_params + row, sizeof(out->next_params));
	core->policy->share(core->memory, index, &out->share_numerator, &out->share_denominator);
	core->policy->bound(core->memory, index, &out->bound);
	out->lag_ns = vgpu_lag(core->policy, core->memory, index);
}

void vgpu_core_rebind(struct vgpu_core *core, const struct vgpu_policy_ops *policy,
		      const struct vgpu_policy_ops *next, const struct vgpu_policy_ops *fallback)
{
	core->policy = policy;
	core->next_policy = next;
	core->fallback = fallback;
}

const char *vgpu_core_warning(const struct vgpu_core *core)
{
	return core->policy->warning ? core->policy->warning(core->memory) : NULL;
}
