/* SPDX-License-Identifier: MIT */
/* GPUs that vgpud switches: the core decides. */
#include <errno.h>
#include <string.h>

#include "builtin.h"
#include "engine_private.h"
#include "engine_switched.h"
#include "vgpu/clock.h"

/* Largest age of a view: each step for a reader takes room in the recording. */
#define STALE_AFTER (10 * VGPU_MSEC)

const char *engine_stops_too_late(const struct vgpu_driver_caps *caps, vgpu_nsec grace,
				  const struct vgpu_policy_ops *policy, const int64_t *params)
{
	int i;

	if (!caps->preemption || strcmp(caps->preemption, "submission") != 0 ||
	    !(policy->promises & VGPU_PROMISE_GUARANTEE))
		return NULL;
	for (i = 0; policy->params[i].name; i++)
		if (strcmp(policy->params[i].name, "late_us") == 0 &&
		    params[i] * (int64_t)VGPU_USEC >= (int64_t)grace)
			return NULL;
	return "on this GPU a VF stops when its submission ends, and is ended after grace_ms: "
	       "its guarantees hold only with late_us of at least grace_ms";
}

/* Makes a new core, and steps it with the policy, the VFs and their parameters. */
static int build(struct engine *e)
{
	const struct vgpu_policy_ops *fallback = vgpu_fallback_policy;
	const struct policy_values *begin = &e->config.begin;
	uint32_t n = e->config.core.max_vfs, i;
	struct vgpu_event event;
	int r;

	if (begin->policy->memory(n) > RECORD_SLOT_SIZE)
		return -E2BIG;
	e->out.why =
		engine_stops_too_late(&e->caps, e->config.core.grace, begin->policy, begin->params);
	if (e->out.why)
		return -EOPNOTSUPP;
	memset(recorder_core_memory(e->recorder), 0, vgpu_core_size(n));
	memset(recorder_fallback_memory(e->recorder), 0, fallback->memory(n));
	recorder_restart(e->recorder);
	engine_say(e, e->caps.note);
	e->core = vgpu_core_init(recorder_core_memory(e->recorder), &e->config.core, fallback,
				 recorder_fallback_memory(e->recorder), vgpu_now());
	e->memory.core = e->core;
	event = (struct vgpu_event){.type = VGPU_EV_POLICY,
				    .policy = begin->policy,
				    .memory = engine_take_slot(e, begin->policy),
				    .params = begin->params,
				    .vf_params = begin->vf_params[0]};
	r = engine_step(e, &event);
	for (i = 0; i < n && r == 0 && e->driver; i++) {
		event = (struct vgpu_event){.type = VGPU_EV_ADD,
					    .vf = i,
					    .code = e->found.contexts[i],
					    .value = e->found.driver_up[i],
					    .policy = begin->policy,
					    .params = begin->vf_params[i]};
		r = engine_step(e, &event);
		event = (struct vgpu_event){.type = VGPU_EV_AWAY, .vf = i, .code = 1};
		if (r == 0 && e->driver && e->ops->memory &&
		    !vgpu_memory_is_here(e->memory.state, i))
			r = engine_step(e, &event);
	}
	event = (struct vgpu_event){.type = VGPU_EV_START};
	if (r == 0 && e->driver)
		engine_step(e, &event);
	return r;
}

/*
 * Steps the core at its deadline. If this thread did not run for longer than a time-out (vgpud was
 * stopped, or the host was busy), the device's answer may have arrived in the meantime: events of
 * the device are therefore handled before the time-out.
 */
static int keep(struct engine *e)
{
	struct vgpu_event timer = {.type = VGPU_EV_TIMER};
	vgpu_nsec now = vgpu_now();
	int r = 0;

	if (now < vgpu_core_deadline(e->core))
		return 0;
	if (vgpu_core_is_overdue(e->core, now))
		r = engine_look(e);
	if (r == 0 && e->driver && vgpu_now() >= vgpu_core_deadline(e->core))
		engine_step(e, &timer);
	engine_drain(e);
	return r;
}

/* Returns whether the GPU can be left as it is: a VF runs, or no VF has work. */
static bool at_rest(struct engine *e)
{
	struct vgpu_core_view view;

	vgpu_core_view(e->core, &view);
	return view.phase == VGPU_PHASE_RUN || view.phase == VGPU_PHASE_PARKED;
}

static void stop(struct engine *e)
{
	struct vgpu_event event = {.type = VGPU_EV_STOP};

	engine_step(e, &event);
}

static vgpu_nsec deadline(const struct engine *e)
{
	return vgpu_core_deadline(e->core);
}

/* Reads policy and values from the core. Returns whether the next ones differ from those in
 * force. */
static bool values(const struct engine *e, bool to_come, struct policy_values *out)
{
	struct vgpu_core_view core;
	struct vgpu_vf_view vf;
	bool next;
	uint32_t i;

	vgpu_core_view(e->core, &core);
	next = to_come && core.next_policy;
	out->policy = next ? core.next_policy : core.policy;
	memcpy(out->params, next ? core.next_params : core.params, sizeof(out->params));
	for (i = 0; i < e->config.core.max_vfs; i++) {
		vgpu_core_vf_view(e->core, i, &vf);
		if (vf.admitted)
			memcpy(out->vf_params[i], next ? vf.next_params : vf.params,
			       sizeof(out->vf_params[i]));
		else
			vgpu_param_defaults(out->policy->vf_params, out->vf_params[i]);
	}
	return core.next_policy != NULL;
}

/* Steps the core with the request's event, and sets the request's result and reason. */
static void step(struct engine *e, struct engine_request *request)
{
	request->result = engine_step(e, &request->event);
	if (request->result < 0 && e->out.why)
		engine_refuse(request, request->result, "%s", e->out.why);
}

static void change_policy(struct engine *e, struct engine_request *request)
{
	struct vgpu_event *event = &request->event;

	event->memory = engine_take_slot(e, event->policy);
	if (event->policy->memory(e->config.core.max_vfs) > RECORD_SLOT_SIZE) {
		engine_refuse(request, -E2BIG, "the policy needs more than %u KiB of memory",
			      RECORD_SLOT_SIZE >> 10);
	} else if (!event->memory) {
		engine_refuse(request, -EBUSY, "another change of policy is under way; try again");
	} else {
		step(e, request);
		if (request->result < 0)
			e->slot_used[recorder_slot_of(e->recorder, event->memory)] = false;
	}
}

/* Sets a VF's parameters. A guarantee pins its VF to GPU memory: if that has no room for all pinned
 * VFs, the VF gets its former parameters back. */
static void set_vf(struct engine *e, struct engine_request *request)
{
	struct vgpu_event *event = &request->event, back = *event;
	struct vgpu_core_view core;
	struct vgpu_vf_view before;
	uint32_t vf = event->vf;

	vgpu_core_view(e->core, &core);
	vgpu_core_vf_view(e->core, vf, &before);
	step(e, request);
	/* Guarantees count, and pin, only once their policy is in force. */
	if (request->result < 0 || core.next_policy || !e->driver)
		return;
	gpu_memory_report(&e->memory, vgpu_now());
	if (!vgpu_memory_overflows(e->memory.state, vf))
		return;
	engine_refuse(
		request, -ENOSPC,
		"a guarantee pins VF %u to the GPU's memory, which has no room for all pinned VFs "
		"and the largest of the others",
		vf);
	back.params = before.params;
	if (engine_step(e, &back) < 0)
		engine_refuse(request, -ENOSPC,
			      "VF %u keeps that guarantee and pins memory that other VFs need: the "
			      "policy "
			      "refuses its former parameters now (%.60s)",
			      vf, e->out.why ? e->out.why : "");
}

static void change(struct engine *e, struct engine_request *request)
{
	const struct vgpu_event *event = &request->event;
	bool of_policy = event->type == VGPU_EV_POLICY || event->type == VGPU_EV_SET_POLICY;
	const char *why = of_policy ? engine_stops_too_late(&e->caps, e->config.core.grace,
							    event->policy, event->params)
				    : NULL;

	if (why)
		engine_refuse(request, -EOPNOTSUPP, "%s", why);
	else if (request->event.type == VGPU_EV_POLICY)
		change_policy(e, request);
	else if (request->event.type == VGPU_EV_SET_VF)
		set_vf(e, request);
	else
		step(e, request);
}

/* Steps the core to the present if its ledger is old: the ledger closes at each step, and a GPU
 * without work has none. Leaves a due deadline to keep(), which reads the device first. */
static void catch_up(struct engine *e)
{
	struct vgpu_event timer = {.type = VGPU_EV_TIMER};
	vgpu_nsec now = vgpu_now();

	if (e->driver && now >= e->stepped_at + STALE_AFTER && now < vgpu_core_deadline(e->core))
		engine_step(e, &timer);
}

/* The core has planned to act then; it is not a time-out. */
static bool is_planned(const struct engine *e, vgpu_nsec at)
{
	return at == vgpu_core_deadline(e->core) && !vgpu_core_is_overdue(e->core, at);
}

static void view(struct engine *e, struct engine_snapshot *s)
{
	const char *warning = vgpu_core_warning(e->core);
	uint32_t i;

	if (warning)
		strncpy(s->warning, warning, sizeof(s->warning) - 1);
	vgpu_core_view(e->core, &s->core);
	for (i = 0; i < s->n_vfs; i++)
		vgpu_core_vf_view(e->core, i, &s->vfs[i]);
}

/* The ledger is as of the last step, which may be long ago while one VF has the engine alone. */
static bool on_engine(struct engine *e, vgpu_nsec had[VGPU_GPU_MAX_VFS], vgpu_nsec now)
{
	struct vgpu_core_view core;
	struct vgpu_vf_view vf;
	uint32_t i;

	if (!e->core)
		return false;
	vgpu_core_view(e->core, &core);
	for (i = 0; i < e->config.core.max_vfs; i++) {
		vgpu_core_vf_brief(e->core, i, &vf);
		had[i] = vf.ledger.run_ns + vf.ledger.donated_ns + vf.ledger.exclusive_ns;
		if (core.current == i && core.phase == VGPU_PHASE_RUN && now > e->stepped_at)
			had[i] += now - e->stepped_at;
	}
	return true;
}

const struct engine_time engine_switched = {
	.moves_memory = true,
	.build = build,
	.deadline = deadline,
	.keep = keep,
	.step = engine_step,
	.change = change,
	.stop = stop,
	.at_rest = at_rest,
	.is_planned = is_planned,
	.catch_up = catch_up,
	.view = view,
	.values = values,
	.on_engine = on_engine,
};
