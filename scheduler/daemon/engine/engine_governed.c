/* SPDX-License-Identifier: MIT */
/*
 * GPUs whose firmware schedules: the governor decides. The engine steps it once per epoch with the
 * VFs' counters, and passes its programs to the driver. The firmware serves the guests, so the
 * driver's events report only whose driver is up, and which VF was reset.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine_governed.h"
#include "engine_unswitched.h"
#include "vgpu/clock.h"

#define PPM UINT64_C(1000000)
/* The service of VFs is shown over this span, of this many readings. */
#define SPAN (10 * VGPU_SEC)
#define READINGS 32u

struct reading {
	vgpu_nsec at;
	vgpu_nsec active[VGPU_GPU_MAX_VFS];
	vgpu_vf_set busy; /* VFs that always had work since the previous reading */
};

struct governed {
	struct vgpu_governor *governor; /* in the recorder's memory */
	struct unswitched common;
	void *memory; /* memory of the policy */
	bool programming;
	vgpu_nsec base[VGPU_GPU_MAX_VFS]; /* counters when the governor began */
	uint64_t guest_resets[VGPU_GPU_MAX_VFS], hangs[VGPU_GPU_MAX_VFS];
	uint64_t violations[VGPU_GPU_MAX_VFS];
	struct reading readings[READINGS];
	uint64_t n_readings; /* since the policy or its values changed */
};

void governed_free(struct governed *g)
{
	free(g);
}

static int step(struct engine *e, struct vgpu_governor_event event);

/* Counters that a GPU does not have stand still: that is not reported. */
static bool is_news(const struct engine *e, enum vgpu_governor_event_type type)
{
	struct vgpu_governor_view view;

	vgpu_governor_view(e->governed->governor, &view);
	return !e->caps.no_usage || type != VGPU_GOVERNOR_USAGE ||
	       view.mode == VGPU_GOVERNOR_FAULTY;
}

/* Records the settings of all VFs that are now in force. */
static void record_plan(struct engine *e, const struct vgpu_program *applied)
{
	uint32_t i;

	for (i = 0; i < e->config.core.max_vfs; i++)
		engine_record(e, VGPU_REC_PLAN, i, 0, applied->vfs[i].quantum,
			      applied->vfs[i].timeout);
}

/* Records the VFs' service in the epoch that has ended. */
static void record_epoch(struct engine *e)
{
	struct vgpu_governed_epoch epoch;
	struct vgpu_governor_view view;
	uint32_t i;

	vgpu_governor_view(e->governed->governor, &view);
	for (i = 0; i < e->config.core.max_vfs; i++) {
		vgpu_governor_epoch(e->governed->governor, i, &epoch);
		engine_record(e, VGPU_REC_SERVED, i, epoch.state, epoch.served, view.length);
	}
}

/* Handles a program that is in force, or was refused. Negative: the GPU is lost. */
static int look_at_program(struct engine *e)
{
	struct vgpu_governor_event event = {.type = VGPU_GOVERNOR_PROGRAMMED};
	struct vgpu_program applied;
	int r;

	if (!e->governed->programming)
		return 0;
	r = e->ops->programmed->programmed(e->driver, &applied);
	if (r > 0)
		return 0;
	e->governed->programming = false;
	event.applied = &applied;
	event.error = r;
	if (r == 0)
		record_plan(e, &applied);
	return step(e, event);
}

static int program(struct engine *e, const struct vgpu_program *plan)
{
	int r = e->ops->programmed->program(e->driver, plan, vgpu_now());

	if (r == -EBUSY)
		return step(e, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_PROGRAMMED,
							    .error = r});
	e->governed->programming = r == 0;
	return r;
}

static void keep_reading(struct governed *g, const vgpu_nsec *active, uint32_t n)
{
	struct reading *to = &g->readings[g->n_readings % READINGS];
	struct vgpu_governed_vf_view vf;
	uint32_t i;

	*to = (struct reading){.at = vgpu_now()};
	for (i = 0; i < n; i++) {
		vgpu_governor_vf_view(g->governor, i, &vf);
		to->active[i] = active[i];
		to->busy |= (vgpu_vf_set)(vf.state == VGPU_GOVERNED_BUSY) << i;
	}
	g->n_readings++;
}

static int read_counters(struct engine *e)
{
	struct vgpu_governor_event event = {.type = VGPU_GOVERNOR_USAGE};
	vgpu_nsec active[VGPU_GPU_MAX_VFS];
	int r = e->ops->programmed->usage(e->driver, active, vgpu_now());
	uint32_t i;

	if (r < 0)
		return r;
	for (i = 0; i < e->config.core.max_vfs; i++)
		active[i] -= e->governed->base[i];
	event.active = active;
	r = step(e, event);
	keep_reading(e->governed, active, e->config.core.max_vfs);
	return r;
}

/* Steps the governor, and carries out its output. Returns 0; -EINVAL, -EOPNOTSUPP or -EBUSY: it has
 * refused the event, with out.why; another error: the GPU is lost. */
static int step(struct engine *e, struct vgpu_governor_event event)
{
	struct governed *g = e->governed;
	struct vgpu_governor_output out;
	uint32_t slot;
	int r;

	event.now = e->stepped_at = vgpu_now();
	r = recorder_governor_step(e->recorder, g->governor, &event, &out);
	histogram_add(&e->decisions, vgpu_now() - event.now);
	e->steps++;
	e->out.why = out.why;
	slot = out.retired ? recorder_slot_of(e->recorder, out.retired) : RECORD_SLOTS;
	if (slot < RECORD_SLOTS)
		e->slot_used[slot] = false;
	if (out.says && is_news(e, event.type))
		engine_say(e, out.says);
	if (out.closed && !e->caps.no_usage)
		record_epoch(e);
	if (r == 0 && out.read)
		r = read_counters(e);
	if (r == 0 && out.program)
		r = program(e, &out.plan);
	return r;
}

struct vgpu_governor *engine_make_governor(void *memory, const struct vgpu_driver_caps *caps,
					   const struct vgpu_core_config *core,
					   const struct vgpu_program *applied, const char **why)
{
	struct vgpu_governor_config config;
	struct vgpu_governor *governor;

	vgpu_governor_defaults(&config, core->max_vfs, caps->quantum, caps->timeout);
	config.keeps_turns = caps->keeps_turns;
	config.stop = core->grace;
	/* Epochs and rotations drift against each other, so that a reading is off by up to a turn,
	 * which may be longer than the mean one here. */
	config.slack = config.turn + config.turn / 4;
	if (caps->no_usage)
		config.still_epochs = 1; /* fall back to the static plan at once */
	governor = vgpu_governor_init(memory, &config, applied, vgpu_now());
	if (!governor)
		*why = "the least quanta of all VFs do not fit into a rotation of 100 ms: "
		       "configure "
		       "fewer VFs";
	return governor;
}

static int make_governor(struct engine *e, const struct vgpu_program *applied)
{
	void *memory = memset(recorder_governor_memory(e->recorder), 0, vgpu_governor_size());

	recorder_restart(e->recorder);
	*e->governed = (struct governed){.common = e->governed->common,
					 .governor = engine_make_governor(memory, &e->caps,
									  &e->config.core, applied,
									  &e->out.why)};
	unswitched_restart(&e->governed->common);
	return e->governed->governor ? 0 : -EINVAL;
}

/* Puts a policy with its values into force, in MEMORY. */
static int take_policy(struct engine *e, const struct policy_values *values, void *memory)
{
	struct vgpu_governor_event event = {.type = VGPU_GOVERNOR_POLICY,
					    .policy = values->policy,
					    .memory = memory,
					    .params = values->params,
					    .vf_params = values->vf_params[0]};
	int r = step(e, event);

	if (r < 0)
		return r;
	unswitched_take(e, &e->governed->common, values);
	e->governed->memory = memory;
	e->governed->n_readings = 0;
	return 0;
}

static int build(struct engine *e)
{
	struct vgpu_program applied = {.keep_turns = false};
	void *memory;
	uint32_t i;
	int r;

	e->out.why = "host_memory_mib: vgpud cannot swap VFs of a GPU whose firmware schedules: "
		     "leave the key out";
	if (e->caps.host > 0)
		return -EOPNOTSUPP;
	e->out.why = "out of memory";
	if (!e->governed)
		e->governed = calloc(1, sizeof(*e->governed));
	if (!e->governed)
		return -ENOMEM;
	e->ops->programmed->programmed(e->driver, &applied);
	r = make_governor(e, &applied);
	record_plan(e, &applied);
	if (r == 0)
		r = e->ops->programmed->usage(e->driver, e->governed->base, vgpu_now());
	memory = r == 0 ? engine_take_slot(e, e->config.begin.policy) : NULL;
	if (r == 0 && !memory)
		return -E2BIG;
	if (r == 0)
		r = take_policy(e, &e->config.begin, memory);
	for (i = 0; i < e->config.core.max_vfs && r == 0; i++)
		unswitched_set_up(e, &e->governed->common, i, e->found.driver_up[i]);
	if (r == 0)
		r = step(e, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_START});
	if (r == 0)
		engine_say(e, e->caps.note);
	return r;
}

static vgpu_nsec deadline(const struct engine *e)
{
	struct vgpu_program applied;

	vgpu_nsec t = unswitched_deadline(&e->governed->common), other;

	if (e->governed->programming && e->ops->programmed->programmed(e->driver, &applied) != 1)
		return 0;
	other = vgpu_governor_deadline(e->governed->governor);
	return other < t ? other : t;
}

static int keep(struct engine *e)
{
	int r = look_at_program(e);

	if (r == 0)
		r = unswitched_keep(e, &e->governed->common);
	if (r == 0 && vgpu_now() >= vgpu_governor_deadline(e->governed->governor))
		r = step(e, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_TIMER});
	return r;
}

/* Handles an event of the driver. */
static int on_event(struct engine *e, struct vgpu_event *event)
{
	struct governed *g = e->governed;
	uint32_t vf = event->vf;

	switch (event->type) {
	case VGPU_EV_RELEASE:
		unswitched_set_up(e, &g->common, vf, event->code == VGPU_WINDOW_INIT);
		break;
	case VGPU_EV_HANG:
		g->hangs[vf]++;
		engine_record(e, VGPU_REC_HANG, vf, VGPU_PHASE_IDLE, (uint64_t)event->value, 0);
		break;
	case VGPU_EV_GUEST_RESET:
		g->guest_resets[vf]++;
		break;
	case VGPU_EV_RESET_DONE:
		unswitched_reset_done(e, &g->common, event);
		break;
	case VGPU_EV_VIOLATION:
		g->violations[vf]++;
		engine_record(e, VGPU_REC_VIOLATION, vf, event->code, 0, 0);
		break;
	default: /* the firmware handles it */
		break;
	}
	return 0;
}

static void change_policy(struct engine *e, struct engine_request *request)
{
	struct policy_values values = unswitched_policy(&request->event, e->config.core.max_vfs);
	void *memory = engine_take_slot(e, values.policy);

	if (!memory) {
		engine_refuse(request, -E2BIG, "the policy needs more than %u KiB of memory",
			      RECORD_SLOT_SIZE >> 10);
		return;
	}
	request->result = take_policy(e, &values, memory);
	if (request->result < 0)
		e->slot_used[recorder_slot_of(e->recorder, memory)] = false;
}

/* Applies new parameters of the policy, or of a VF. */
static void change_values(struct engine *e, struct engine_request *request)
{
	const struct vgpu_event *event = &request->event;
	struct policy_values next;

	if (!unswitched_change(&e->governed->common, request, &next))
		return;
	request->result =
		step(e, (struct vgpu_governor_event){.type = event->type == VGPU_EV_SET_VF
								     ? VGPU_GOVERNOR_SET_VF
								     : VGPU_GOVERNOR_SET_POLICY,
						     .vf = event->vf,
						     .params = event->params});
	if (request->result < 0)
		return;
	e->governed->common.values = next;
	e->governed->n_readings = 0;
	e->policy_changed = true;
}

static void change(struct engine *e, struct engine_request *request)
{
	e->out.why = NULL;
	switch (request->event.type) {
	case VGPU_EV_POLICY:
		change_policy(e, request);
		break;
	case VGPU_EV_SET_POLICY:
	case VGPU_EV_SET_VF:
		change_values(e, request);
		break;
	case VGPU_EV_RESET_VF:
		if (unswitched_reset(e, &e->governed->common, request) < 0)
			engine_lose(e, request->result);
		break;
	case VGPU_EV_INCOMING:
		/* The kernel's driver keeps a VF stopped while its state is loaded, and the
		 * firmware skips it: nothing need be held back. */
		if (request->event.code == 0 && request->event.value > 0)
			request->result = step(e, (struct vgpu_governor_event){
							  .type = VGPU_GOVERNOR_BRING,
							  .vf = request->event.vf,
							  .owed = (vgpu_nsec)request->event.value});
		break;
	default:
		engine_refuse(request, -EOPNOTSUPP,
			      "the firmware of this GPU schedules it: vgpud cannot do this");
		return;
	}
	if (request->result < 0 && e->out.why)
		engine_refuse(request, request->result, "%s", e->out.why);
}

/* The nominal plan remains in force from now on. */
static void stop(struct engine *e)
{
	if (step(e, (struct vgpu_governor_event){.type = VGPU_GOVERNOR_STOP}) < 0)
		engine_lose(e, -ENODEV);
}

static bool at_rest(struct engine *e)
{
	return !e->governed->programming;
}

static uint32_t ppm(uint64_t part, uint64_t whole)
{
	return (uint32_t)((unsigned __int128)part * PPM / whole);
}

/* Writes the service of VFs that always had work in the last readings, and their promised
 * shares. */
static void view_shares(const struct governed *g, struct engine_snapshot *s)
{
	const struct reading *last, *first;
	uint64_t i, n = g->n_readings < READINGS ? g->n_readings : READINGS;
	uint64_t numerator, denominator, all = 0, served = 0;
	uint64_t parts[VGPU_GPU_MAX_VFS] = {0};
	vgpu_vf_set busy = UINT64_MAX;
	uint32_t vf;

	if (n < 2)
		return;
	last = first = &g->readings[(g->n_readings - 1) % READINGS];
	for (i = 1; i < n && last->at - first->at < SPAN; i++) {
		busy &= first->busy;
		first = &g->readings[(g->n_readings - 1 - i) % READINGS];
	}
	s->span = last->at - first->at;
	for (vf = 0; vf < s->n_vfs; vf++) {
		if (!(busy >> vf & 1) || last->active[vf] < first->active[vf])
			continue;
		g->common.values.policy->share(g->memory, vf, &numerator, &denominator);
		parts[vf] = denominator ? numerator * PPM / denominator : 0;
		all += parts[vf];
		served += last->active[vf] - first->active[vf];
	}
	for (vf = 0; vf < s->n_vfs && all > 0 && served > 0; vf++)
		if (busy >> vf & 1 && last->active[vf] >= first->active[vf])
			s->shares[vf] = (struct engine_share){
				.known = true,
				.promised_ppm = (uint32_t)(parts[vf] * PPM / all),
				.served_ppm = ppm(last->active[vf] - first->active[vf], served)};
}

/* Without counters it is unknown which VFs have work. */
static void view_vf(const struct governed *g, uint32_t i, struct engine_snapshot *s)
{
	struct vgpu_governed_vf_view *from = &s->governed_vfs[i];
	struct vgpu_vf_view *to = &s->vfs[i];

	vgpu_governor_vf_view(g->governor, i, from);
	if (s->caps.no_usage)
		from->bound.max_lag = VGPU_NEVER;
	to->has_work = s->caps.no_usage || from->state != VGPU_GOVERNED_ASLEEP;
	to->lag_ns = from->owed;
	to->bound.max_lag = from->bound.max_lag;
	to->bound.max_wait = from->bound.max_wait;
	to->ledger.run_ns = from->ledger.served;
	to->ledger.charged_ns = from->ledger.charged;
	to->ledger.brought_ns = from->ledger.brought;
	to->ledger.guest_resets = g->guest_resets[i];
	to->ledger.hangs = g->hangs[i];
	to->ledger.violations = g->violations[i];
	g->common.values.policy->share(g->memory, i, &to->share_numerator, &to->share_denominator);
}

static void view(struct engine *e, struct engine_snapshot *s)
{
	const struct governed *g = e->governed;
	const char *warning = vgpu_governor_warning(g->governor);
	uint32_t i;

	if (warning)
		strncpy(s->warning, warning, sizeof(s->warning) - 1);
	s->governed = true;
	vgpu_governor_view(g->governor, &s->governor);
	s->governor.keep_turns |= e->caps.always_keeps_turns;
	if (e->caps.no_usage &&
	    (s->governor.mode == VGPU_GOVERNOR_GOVERNED || s->governor.mode == VGPU_GOVERNOR_STILL))
		s->governor.mode = VGPU_GOVERNOR_STATIC;
	unswitched_view(&g->common, s);
	s->core.engine.wall_ns = s->governor.wall;
	s->core.engine.idle_ns = s->governor.idle;
	for (i = 0; i < s->n_vfs; i++)
		view_vf(g, i, s);
	view_shares(g, s);
}

static bool values(const struct engine *e, bool, struct policy_values *out)
{
	*out = e->governed->common.values;
	return false;
}

static bool on_engine(struct engine *e, vgpu_nsec had[VGPU_GPU_MAX_VFS], vgpu_nsec now)
{
	return !e->caps.no_usage && e->ops->programmed->usage(e->driver, had, now) == 0;
}

const struct engine_time engine_governed = {
	.build = build,
	.deadline = deadline,
	.keep = keep,
	.step = on_event,
	.change = change,
	.stop = stop,
	.at_rest = at_rest,
	.view = view,
	.values = values,
	.on_engine = on_engine,
};
